// The way to the server.
#ifndef TVQ_CLIENT_GATEWAY_UPSTREAM_CHANNEL_H_
#define TVQ_CLIENT_GATEWAY_UPSTREAM_CHANNEL_H_

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/cpp/connect.h"
#include "tvq/v1/generation.grpc.pb.h"
#include "tvq/v1/model.grpc.pb.h"
#include "tvq/v1/session.grpc.pb.h"

namespace tvq::gateway {

struct Stubs {
  std::shared_ptr<grpc::Channel> channel;
  std::unique_ptr<v1::GenerationService::Stub> generation;
  std::unique_ptr<v1::SessionService::Stub> sessions;
  std::unique_ptr<v1::ModelService::Stub> models;
};

// Connections to one server, which all calls share. Connects by itself, again and again where the
// server is away; calls are UNAVAILABLE meanwhile. Thread-safe.
class Upstream {
 public:
  // INVALID_ARGUMENT for options that do not fit together, NOT_FOUND for a file that cannot be
  // read.
  static absl::StatusOr<std::unique_ptr<Upstream>> Open(const client::ConnectOptions& options,
                                                        int connections);

  // Those of the connection whose turn it is, or of the next one that is ready; where none is, of
  // one that has not failed, if there is any.
  const Stubs& Next();

 private:
  std::vector<Stubs> stubs_;
  std::atomic<size_t> next_{0};
};

}  // namespace tvq::gateway

#endif  // TVQ_CLIENT_GATEWAY_UPSTREAM_CHANNEL_H_
