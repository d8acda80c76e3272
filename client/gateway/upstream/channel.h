// The way to the server.
#ifndef TVQ_CLIENT_GATEWAY_UPSTREAM_CHANNEL_H_
#define TVQ_CLIENT_GATEWAY_UPSTREAM_CHANNEL_H_

#include <grpcpp/grpcpp.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "client/cpp/connect.h"
#include "client/gateway/upstream/call_queue.h"
#include "tvq/v1/generation.grpc.pb.h"
#include "tvq/v1/model.grpc.pb.h"
#include "tvq/v1/session.grpc.pb.h"

namespace tvq::gateway {

struct Stubs {
  std::shared_ptr<grpc::Channel> channel;
  std::unique_ptr<v1::GenerationService::Stub> generation;
  std::unique_ptr<v1::SessionService::Stub> sessions;
  std::unique_ptr<v1::ModelService::Stub> models;
  grpc::CompletionQueue* queue = nullptr;  // for all calls

  // By its type.
  template <typename Stub>
  Stub& Get() const {
    if constexpr (std::is_same_v<Stub, v1::GenerationService::Stub>) {
      return *generation;
    } else if constexpr (std::is_same_v<Stub, v1::SessionService::Stub>) {
      return *sessions;
    } else {
      return *models;
    }
  }
};

// Connections to one server, which all calls share. Connects by itself, again and again where the
// server is away; calls are UNAVAILABLE meanwhile. Used by the loop's thread alone; outlives its
// calls.
class Upstream {
 public:
  // The calls' news go to `loop`. INVALID_ARGUMENT for options that do not fit together, NOT_FOUND
  // for a file that cannot be read.
  static absl::StatusOr<std::unique_ptr<Upstream>> Open(const client::ConnectOptions& options,
                                                        int connections,
                                                        asio::any_io_executor loop);

  // Those of the connection whose turn it is, or of the next one that is ready; where none is, of
  // one that has not failed, if there is any.
  const Stubs& Next();

  const std::string& address() const { return address_; }  // of the server

 private:
  Upstream(std::string address, asio::any_io_executor loop)
      : address_(std::move(address)), queue_(std::move(loop)) {}

  const std::string address_;
  std::vector<Stubs> stubs_;
  size_t next_ = 0;
  CallQueue queue_;
};

}  // namespace tvq::gateway

#endif  // TVQ_CLIENT_GATEWAY_UPSTREAM_CHANNEL_H_
