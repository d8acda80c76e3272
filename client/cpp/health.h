#ifndef TVQ_CLIENT_CPP_HEALTH_H_
#define TVQ_CLIENT_CPP_HEALTH_H_

#include "absl/status/statusor.h"
#include "client/cpp/call.h"
#include "client/cpp/connect.h"

namespace tvq::client {

// What grpc.health.v1.Health says of the server as a whole: false once it drains, or when it hangs.
// Sends no key, and takes whatever certificate the server shows. Errors: those of Client::Connect
// and of the call, UNAVAILABLE if nobody answers.
absl::StatusOr<bool> IsServing(const ConnectOptions& connect, const CallOptions& options = {});

}  // namespace tvq::client

#endif  // TVQ_CLIENT_CPP_HEALTH_H_
