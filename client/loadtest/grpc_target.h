#ifndef TVQ_CLIENT_LOADTEST_GRPC_TARGET_H_
#define TVQ_CLIENT_LOADTEST_GRPC_TARGET_H_

#include <memory>

#include "absl/status/statusor.h"
#include "client/cpp/connect.h"
#include "client/loadtest/driver/target.h"

namespace tvq::loadtest {

// A tvq-server. `connections` >= 1 share the calls in turn.
absl::StatusOr<std::unique_ptr<Target>> OpenGrpcTarget(const client::ConnectOptions& options,
                                                       int connections);

}  // namespace tvq::loadtest

#endif  // TVQ_CLIENT_LOADTEST_GRPC_TARGET_H_
