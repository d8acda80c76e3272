#ifndef TVQ_SERVER_RPC_SERVICES_ADMIN_SERVICE_H_
#define TVQ_SERVER_RPC_SERVICES_ADMIN_SERVICE_H_

#include "absl/status/status.h"
#include "server/rpc/calls/credentials.h"
#include "server/rpc/services/drain_order.h"
#include "server/rpc/services/tvq_service.h"
#include "tvq/v1/admin.pb.h"

namespace tvq {

class AdminService final : public TvqService {
 public:
  // `credentials` must outlive the service and its calls.
  AdminService(const CallContext& context, Credentials* credentials, BeginDrain drain);

 private:
  absl::Status Drain(const Caller& caller, const v1::DrainRequest& request,
                     v1::DrainResponse* response) const;
  absl::Status Reload(const Caller& caller, v1::ReloadCredentialsResponse* response) const;

  Credentials* const credentials_;
  const BeginDrain drain_;
};

}  // namespace tvq

#endif  // TVQ_SERVER_RPC_SERVICES_ADMIN_SERVICE_H_
