// Not part of the interface: what to tell where gRPC, not a server of tvq, says why a call failed.
#ifndef TVQ_CLIENT_CPP_GRPC_WORDS_H_
#define TVQ_CLIENT_CPP_GRPC_WORDS_H_

#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace tvq::client {

// What to tell about a call that failed with this code and message: the message itself if a server
// of tvq wrote it, else what gRPC's own words stand for.
std::string WithoutGrpcWords(absl::StatusCode code, std::string_view message);

// Whether gRPC says that the server does not take a request so large, now or later.
bool IsTooLarge(std::string_view message);

}  // namespace tvq::client

#endif  // TVQ_CLIENT_CPP_GRPC_WORDS_H_
