// A unary method as a function from message to message.
#ifndef TVQ_SERVER_RPC_UNARY_CALL_H_
#define TVQ_SERVER_RPC_UNARY_CALL_H_

#include <grpcpp/server_context.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/server_callback.h>

#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "server/rpc/call_context.h"
#include "server/rpc/call_scope.h"
#include "server/rpc/status.h"
#include "server/rpc/wire.h"

namespace tvq {

// Where a unary method runs.
enum class RunOn {
  kThisThread,    // or, for a large request, on a worker
  kSessionTasks,  // may block
};

// `handle` is absl::Status(const Caller&, const Request&, Response*). Does not run at all for a
// caller who may not call `method`, a literal's.
template <typename Request, typename Response, typename Handle>
grpc::ServerUnaryReactor* UnaryCall(const CallContext& context, const MethodInfo& method,
                                    grpc::CallbackServerContext* rpc, const grpc::ByteBuffer* in,
                                    grpc::ByteBuffer* out, Handle handle,
                                    RunOn where = RunOn::kThisThread) {
  grpc::ServerUnaryReactor* reactor = rpc->DefaultReactor();
  // gRPC keeps `in` and `out` until Finish.
  const auto scope = std::make_shared<CallScope>(context, method, rpc);
  const auto finish = [reactor, scope](const absl::Status& status) {
    reactor->Finish(scope->End(status));
    scope->Done();
  };
  if (const absl::Status admitted = scope->Begin(); !admitted.ok()) {
    finish(admitted);
    return reactor;
  }
  // A method that fails has done nothing.
  const auto refuse = [rpc, scope, finish](const absl::Status& status) {
    scope->Refuse(status);
    AddRetryPushback(status, /*fits_idle_server=*/true, rpc);
    finish(status);
  };
  const auto run = [rpc, scope, finish, refuse, in, out, handle] {
    if (rpc->IsCancelled()) return refuse(absl::CancelledError("the call was cancelled"));
    Request request;
    if (auto status = ParseMessage(*in, &request); !status.ok()) return refuse(status);
    Response response;
    if (auto status = handle(scope->caller(), request, &response); !status.ok()) {
      return refuse(status);
    }
    auto bytes = SerializeMessage(response);
    if (!bytes.ok()) return finish(bytes.status());
    *out = *std::move(bytes);
    rpc->AddInitialMetadata("x-request-id", scope->caller().request_id);
    finish(absl::OkStatus());
  };
  if (where == RunOn::kSessionTasks) {
    if (!context.session_tasks->TrySchedule(kSessionTaskBytes + in->Length(), run)) {
      refuse(SessionTasksBusy());
    }
  } else if (in->Length() <= kInlineRequestBytes) {
    run();
  } else if (!context.workers->TrySchedule(in->Length(), run)) {
    refuse(WorkersBusy());
  }
  return reactor;
}

}  // namespace tvq

#endif  // TVQ_SERVER_RPC_UNARY_CALL_H_
