#ifndef TVQ_SERVER_RPC_SERVICES_SESSION_SERVICE_H_
#define TVQ_SERVER_RPC_SERVICES_SESSION_SERVICE_H_

#include <grpcpp/grpcpp.h>

#include "server/rpc/calls/call_context.h"
#include "tvq/v1/session.grpc.pb.h"

namespace tvq {

// The methods with their raw bytes, see wire.h.
using RawSessionQueries = v1::SessionService::WithRawCallbackMethod_CreateSession<
    v1::SessionService::WithRawCallbackMethod_GetSession<
        v1::SessionService::WithRawCallbackMethod_ListSessions<
            v1::SessionService::WithRawCallbackMethod_SaveSession<
                v1::SessionService::WithRawCallbackMethod_DeleteSession<
                    v1::SessionService::Service>>>>>;
using RawSessionChanges = v1::SessionService::WithRawCallbackMethod_AppendSession<
    v1::SessionService::WithRawCallbackMethod_ForkSession<
        v1::SessionService::WithRawCallbackMethod_MarkSession<
            v1::SessionService::WithRawCallbackMethod_UnmarkSession<
                v1::SessionService::WithRawCallbackMethod_RewindSession<RawSessionQueries>>>>>;
using RawSessionService = v1::SessionService::WithRawCallbackMethod_ExportSession<
    v1::SessionService::WithRawCallbackMethod_ImportSession<RawSessionChanges>>;

class SessionService final : public RawSessionService {
 public:
  // `context`, which has a store, must outlive the service and its calls.
  explicit SessionService(const CallContext& context) : context_(context) {}

  using Rpc = grpc::CallbackServerContext;
  using Bytes = grpc::ByteBuffer;
  using Unary = grpc::ServerUnaryReactor;

  Unary* CreateSession(Rpc* rpc, const Bytes* in, Bytes* out) override;
  Unary* GetSession(Rpc* rpc, const Bytes* in, Bytes* out) override;
  Unary* ListSessions(Rpc* rpc, const Bytes* in, Bytes* out) override;
  Unary* AppendSession(Rpc* rpc, const Bytes* in, Bytes* out) override;
  Unary* ForkSession(Rpc* rpc, const Bytes* in, Bytes* out) override;
  Unary* MarkSession(Rpc* rpc, const Bytes* in, Bytes* out) override;
  Unary* UnmarkSession(Rpc* rpc, const Bytes* in, Bytes* out) override;
  Unary* RewindSession(Rpc* rpc, const Bytes* in, Bytes* out) override;
  Unary* SaveSession(Rpc* rpc, const Bytes* in, Bytes* out) override;
  Unary* DeleteSession(Rpc* rpc, const Bytes* in, Bytes* out) override;
  grpc::ServerWriteReactor<Bytes>* ExportSession(Rpc* rpc, const Bytes* in) override;
  grpc::ServerReadReactor<Bytes>* ImportSession(Rpc* rpc, Bytes* out) override;

 private:
  const CallContext& context_;
};

}  // namespace tvq

#endif  // TVQ_SERVER_RPC_SERVICES_SESSION_SERVICE_H_
