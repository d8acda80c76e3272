#ifndef TVQ_SERVER_RPC_SERVICES_ADMIN_SERVICE_H_
#define TVQ_SERVER_RPC_SERVICES_ADMIN_SERVICE_H_

#include <grpcpp/grpcpp.h>

#include <utility>

#include "server/rpc/calls/call_context.h"
#include "server/rpc/calls/credentials.h"
#include "server/rpc/services/drain_order.h"
#include "tvq/v1/admin.grpc.pb.h"

namespace tvq {

// The methods with their raw bytes, see wire.h.
using RawAdminService = v1::AdminService::WithRawCallbackMethod_Drain<
    v1::AdminService::WithRawCallbackMethod_AdoptSession<
        v1::AdminService::WithRawCallbackMethod_ReloadCredentials<v1::AdminService::Service>>>;

class AdminService final : public RawAdminService {
 public:
  // `context` and `credentials` must outlive the service and its calls.
  AdminService(const CallContext& context, Credentials* credentials, BeginDrain drain)
      : context_(context), credentials_(credentials), drain_(std::move(drain)) {}

  grpc::ServerUnaryReactor* Drain(grpc::CallbackServerContext* rpc, const grpc::ByteBuffer* in,
                                  grpc::ByteBuffer* out) override;
  grpc::ServerReadReactor<grpc::ByteBuffer>* AdoptSession(grpc::CallbackServerContext* rpc,
                                                          grpc::ByteBuffer* out) override;
  grpc::ServerUnaryReactor* ReloadCredentials(grpc::CallbackServerContext* rpc,
                                              const grpc::ByteBuffer* in,
                                              grpc::ByteBuffer* out) override;

 private:
  absl::Status BeginDraining(const v1::DrainRequest& request, v1::DrainResponse* response) const;
  absl::Status Reload(const Caller& caller, v1::ReloadCredentialsResponse* response) const;

  const CallContext& context_;
  Credentials* const credentials_;
  const BeginDrain drain_;
};

}  // namespace tvq

#endif  // TVQ_SERVER_RPC_SERVICES_ADMIN_SERVICE_H_
