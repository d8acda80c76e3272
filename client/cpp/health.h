#ifndef TVQ_CLIENT_CPP_HEALTH_H_
#define TVQ_CLIENT_CPP_HEALTH_H_

#include "absl/status/statusor.h"
#include "client/cpp/call.h"
#include "client/cpp/connect.h"

namespace tvq::client {

enum class Health {
  kServing,
  kNotServing,  // it drains, or hangs
  kAlive        // it speaks TLS, and wants another client certificate: it may serve or not
};

// What grpc.health.v1.Health says of the server as a whole. Sends no key, and takes whatever
// certificate the server shows. Errors: those of Client::Connect and of the call, UNAVAILABLE if
// no server answers.
absl::StatusOr<Health> CheckHealth(const ConnectOptions& connect, const CallOptions& options = {});

}  // namespace tvq::client

#endif  // TVQ_CLIENT_CPP_HEALTH_H_
