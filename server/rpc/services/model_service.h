#ifndef TVQ_SERVER_RPC_SERVICES_MODEL_SERVICE_H_
#define TVQ_SERVER_RPC_SERVICES_MODEL_SERVICE_H_

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <string>

#include "absl/time/time.h"
#include "base/mutex.h"
#include "base/ticker.h"
#include "server/rpc/calls/call_context.h"
#include "server/rpc/services/server_history.h"
#include "tvq/v1/model.grpc.pb.h"

namespace tvq {

// What GetServerInfo tells beside figures. For people.
struct ServerDescription {
  std::string version;
  std::string build;
  std::string device;
};

// The methods with their raw bytes, see wire.h.
using RawModelService = v1::ModelService::WithRawCallbackMethod_ListModels<
    v1::ModelService::WithRawCallbackMethod_GetModel<
        v1::ModelService::WithRawCallbackMethod_GetServerInfo<v1::ModelService::Service>>>;

class ModelService final : public RawModelService {
 public:
  // `context` must outlive the service and its calls.
  ModelService(const CallContext& context, ServerDescription description);

  grpc::ServerUnaryReactor* ListModels(grpc::CallbackServerContext* rpc, const grpc::ByteBuffer* in,
                                       grpc::ByteBuffer* out) override;
  grpc::ServerUnaryReactor* GetModel(grpc::CallbackServerContext* rpc, const grpc::ByteBuffer* in,
                                     grpc::ByteBuffer* out) override;
  grpc::ServerUnaryReactor* GetServerInfo(grpc::CallbackServerContext* rpc,
                                          const grpc::ByteBuffer* in,
                                          grpc::ByteBuffer* out) override;

 private:
  absl::Status Describe(const ServedModel& model, int64_t quoted_tokens, v1::Model* message) const;
  void Describe(v1::GetServerInfoResponse* message) const;
  // Into the fields that a response and a sample have both. Returns the uptime.
  template <typename Message>
  std::chrono::nanoseconds Tell(Message* message) const;
  void Sample();

  const CallContext& context_;
  const ServerDescription description_;
  const absl::Time start_;  // a time of day
  const std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
  Mutex mutex_;
  ServerHistory history_ ABSL_GUARDED_BY(mutex_);
  Ticker sampler_;  // last: it uses all of the above
};

}  // namespace tvq

#endif  // TVQ_SERVER_RPC_SERVICES_MODEL_SERVICE_H_
