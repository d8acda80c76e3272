#ifndef TVQ_SERVER_RPC_SERVICES_SESSION_SERVICE_H_
#define TVQ_SERVER_RPC_SERVICES_SESSION_SERVICE_H_

#include "absl/status/status.h"
#include "server/rpc/services/tvq_service.h"

namespace tvq {

// Of a context that has a store.
class SessionService final : public TvqService {
 public:
  explicit SessionService(const CallContext& context);

 private:
  // A method that may block.
  template <typename Request, typename Response>
  void Add(const MethodInfo& method,
           absl::Status (*handle)(const CallContext&, const Caller&, const Request&, Response*),
           int64_t (*room)(const Request&) = nullptr);
};

}  // namespace tvq

#endif  // TVQ_SERVER_RPC_SERVICES_SESSION_SERVICE_H_
