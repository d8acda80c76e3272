// A unary method as a function from message to message.
#ifndef TVQ_SERVER_RPC_CALLS_UNARY_CALL_H_
#define TVQ_SERVER_RPC_CALLS_UNARY_CALL_H_

#include <grpcpp/server_context.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/server_callback.h>

#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "server/rpc/calls/call_context.h"
#include "server/rpc/calls/unary_reactor.h"
#include "server/rpc/wire/wire.h"

namespace tvq {

// Where a unary method runs.
enum class RunOn {
  kThisThread,    // or, for a large request, on a worker
  kSessionTasks,  // may block
};

// `Handle` is absl::Status(const Caller&, const Request&, Response*). A method that fails has done
// nothing.
template <typename Request, typename Response, typename Handle>
class UnaryCall final : public UnaryReactor {
 public:
  UnaryCall(const CallContext& context, const MethodInfo& method, grpc::CallbackServerContext* rpc,
            grpc::ByteBuffer* out, Handle handle)
      : UnaryReactor(context, method, rpc, out), handle_(std::move(handle)) {}

  // Once, before the reactor is returned. gRPC keeps `in` until Finish.
  void Begin(const grpc::ByteBuffer* in, RunOn where) {
    if (!Admit()) return;
    const auto run = [self = shared_from_this(), this, in] { Run(*in); };
    if (where == RunOn::kSessionTasks) {
      if (auto status = context().session_tasks->TrySchedule(caller().sharer,
                                                             kSessionTaskBytes + in->Length(), run);
          !status.ok()) {
        Refuse(status, /*busy=*/true);
      }
    } else if (in->Length() <= kInlineRequestBytes) {
      run();
    } else if (auto status = context().workers->TrySchedule(caller().sharer, in->Length(), run);
               !status.ok()) {
      Refuse(status, /*busy=*/true);
    }
  }

 private:
  void Run(const grpc::ByteBuffer& in) {
    absl::Status status =
        rpc()->IsCancelled() ? absl::CancelledError("the call was cancelled") : absl::OkStatus();
    Request request;
    if (status.ok()) status = ParseMessage(in, &request);
    Response response;
    if (status.ok()) status = handle_(caller(), request, &response);
    if (!status.ok()) return Refuse(status, /*busy=*/true);
    Answer(response);
  }

  const Handle handle_;
};

// Begins a call, which does not run at all for a caller who may not call `method`, a literal's.
template <typename Request, typename Response, typename Handle>
grpc::ServerUnaryReactor* BeginUnaryCall(const CallContext& context, const MethodInfo& method,
                                         grpc::CallbackServerContext* rpc,
                                         const grpc::ByteBuffer* in, grpc::ByteBuffer* out,
                                         Handle handle, RunOn where = RunOn::kThisThread) {
  const auto call = std::make_shared<UnaryCall<Request, Response, Handle>>(context, method, rpc,
                                                                           out, std::move(handle));
  call->Begin(in, where);
  return call.get();  // holds itself until gRPC is done with it
}

}  // namespace tvq

#endif  // TVQ_SERVER_RPC_CALLS_UNARY_CALL_H_
