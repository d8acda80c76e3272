// Not part of the interface: why a server did not do a call, as its status has it in details.
#ifndef TVQ_CLIENT_CPP_REFUSAL_DETAILS_H_
#define TVQ_CLIENT_CPP_REFUSAL_DETAILS_H_

#include <grpcpp/support/status.h>

#include <optional>

#include "base/refusal.h"

namespace tvq::client {

// Nothing if the status has no details, as of gRPC itself, or a reason that this client does not
// know.
std::optional<Refusal> RefusalIn(const grpc::Status& status);

}  // namespace tvq::client

#endif  // TVQ_CLIENT_CPP_REFUSAL_DETAILS_H_
