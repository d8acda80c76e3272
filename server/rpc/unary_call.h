// A unary method as a function from message to message.
#ifndef TVQ_SERVER_RPC_UNARY_CALL_H_
#define TVQ_SERVER_RPC_UNARY_CALL_H_

#include <grpcpp/server_context.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/server_callback.h>

#include <chrono>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "server/rpc/call_context.h"
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
  context.open_calls->Begin();
  const auto caller = std::make_shared<Caller>();
  const auto finish = [reactor, rpc, caller, &context, &method,
                       start = std::chrono::steady_clock::now()](const absl::Status& status) {
    if (status.ok()) rpc->AddInitialMetadata("x-request-id", caller->request_id);
    const auto took = absl::FromChrono(std::chrono::steady_clock::now() - start);
    context.recorder->Finished({method, *caller, status, took});
    reactor->Finish(ToGrpc(status));
    context.open_calls->End();
  };
  if (const absl::Status status = context.gate->Admit(method, rpc, caller.get()); !status.ok()) {
    finish(status);
    return reactor;
  }
  const auto run = [rpc, finish, caller, in, out, handle] {
    if (rpc->IsCancelled()) return finish(absl::CancelledError("the call was cancelled"));
    Request request;
    Response response;
    absl::Status status = ParseMessage(*in, &request);
    if (status.ok()) status = handle(*caller, request, &response);
    if (status.ok()) {
      auto bytes = SerializeMessage(response);
      status = bytes.status();
      if (bytes.ok()) *out = *std::move(bytes);
    }
    AddRetryPushback(status, /*fits_idle_server=*/true, rpc);
    finish(status);
  };
  absl::Status busy;
  if (where == RunOn::kSessionTasks) {
    if (!context.session_tasks->TrySchedule(kSessionTaskBytes + in->Length(), run)) {
      busy = SessionTasksBusy();
    }
  } else if (in->Length() <= kInlineRequestBytes) {
    run();
  } else if (!context.workers->TrySchedule(in->Length(), run)) {
    busy = WorkersBusy();
  }
  if (!busy.ok()) {
    AddRetryPushback(busy, /*fits_idle_server=*/true, rpc);
    context.recorder->Rejected(busy, *context.draining);
    finish(busy);
  }
  return reactor;
}

}  // namespace tvq

#endif  // TVQ_SERVER_RPC_UNARY_CALL_H_
