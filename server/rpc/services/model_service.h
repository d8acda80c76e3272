#ifndef TVQ_SERVER_RPC_SERVICES_MODEL_SERVICE_H_
#define TVQ_SERVER_RPC_SERVICES_MODEL_SERVICE_H_

#include <chrono>
#include <string>

#include "absl/time/time.h"
#include "base/mutex.h"
#include "base/ticker.h"
#include "server/rpc/services/server_history.h"
#include "server/rpc/services/tvq_service.h"
#include "tvq/v1/model.pb.h"

namespace tvq {

// What GetServerInfo tells beside figures. For people.
struct ServerDescription {
  std::string version;
  std::string build;
  std::string device;
};

class ModelService final : public TvqService {
 public:
  ModelService(const CallContext& context, ServerDescription description);

 private:
  absl::Status ListModels(v1::ListModelsResponse* response) const;
  absl::Status GetModel(const v1::GetModelRequest& request, v1::GetModelResponse* response) const;
  absl::Status GetServerInfo(const v1::GetServerInfoRequest& request,
                             v1::GetServerInfoResponse* response);
  absl::Status Describe(const ServedModel& model, int64_t quoted_tokens, v1::Model* message) const;
  void Describe(v1::GetServerInfoResponse* message) const;
  // Into the fields that a response and a sample have both. Returns the uptime.
  template <typename Message>
  std::chrono::nanoseconds Tell(Message* message) const;
  void Sample();

  const ServerDescription description_;
  const absl::Time start_;  // a time of day
  const std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
  Mutex mutex_;
  ServerHistory history_ ABSL_GUARDED_BY(mutex_);
  Ticker sampler_;  // last: it uses all of the above
};

}  // namespace tvq

#endif  // TVQ_SERVER_RPC_SERVICES_MODEL_SERVICE_H_
