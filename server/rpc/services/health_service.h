#ifndef TVQ_SERVER_RPC_SERVICES_HEALTH_SERVICE_H_
#define TVQ_SERVER_RPC_SERVICES_HEALTH_SERVICE_H_

#include <memory>
#include <optional>
#include <set>
#include <string>

#include "absl/base/thread_annotations.h"
#include "base/mutex.h"
#include "server/rpc/transport/call_service.h"

namespace tvq {

// grpc.health.v1.Health, for which nobody needs a key. All services serve, or none.
class HealthService final : public CallService {
 public:
  // Knows these, by their full names, and "", which is the server.
  explicit HealthService(std::set<std::string> services);

  // At first it does not. Any thread.
  void SetServing(bool serving);

 private:
  class HealthCall;
  class Watch;

  void BeginCheck(std::unique_ptr<Rpc> rpc);
  void BeginWatch(std::unique_ptr<Rpc> rpc);
  // Whether it knows the service that is asked for; unset: this is no request. Clears the request.
  std::optional<bool> Knows(Rpc* rpc) const;

  const std::set<std::string> services_;
  Mutex mutex_;
  bool serving_ ABSL_GUARDED_BY(mutex_) = false;
  std::set<Watch*> watches_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tvq

#endif  // TVQ_SERVER_RPC_SERVICES_HEALTH_SERVICE_H_
