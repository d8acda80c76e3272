// A unary method as a function from message to message.
#ifndef TVQ_SERVER_RPC_CALLS_UNARY_CALL_H_
#define TVQ_SERVER_RPC_CALLS_UNARY_CALL_H_

#include <grpcpp/server_context.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/server_callback.h>

#include <cstdint>
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
  kWorkers,       // may take long
  kSessionTasks,  // may block
};

// Of a method whose answer is counted when it is made: nothing was done that would have to be
// undone.
struct RoomLater {
  template <typename Request>
  int64_t operator()(const Request&) const {
    return 0;
  }
};

// `Handle` is absl::Status(const Caller&, const Request&, Response*). A method that fails has done
// nothing. `Room` is int64_t(const Request&): the bytes of the answer for which there must be room
// before the method does anything.
template <typename Request, typename Response, typename Handle, typename Room>
class UnaryCall final : public UnaryReactor {
 public:
  UnaryCall(const CallContext& context, const MethodInfo& method, grpc::CallbackServerContext* rpc,
            grpc::ByteBuffer* out, Handle handle, Room room)
      : UnaryReactor(context, method, rpc, out, context.answers),
        handle_(std::move(handle)),
        room_(std::move(room)) {}

  // Once, before the reactor is returned. gRPC keeps `in` until Finish.
  void Begin(const grpc::ByteBuffer* in, RunOn where) {
    if (!Admit()) return;
    const auto run = [self = shared_from_this(), this, in] { Run(*in); };
    if (where == RunOn::kSessionTasks) {
      if (auto status = context().session_tasks->TrySchedule(caller().sharer,
                                                             kSessionTaskBytes + in->Length(), run);
          !status.ok()) {
        End(status);
      }
    } else if (where == RunOn::kThisThread && in->Length() <= kInlineRequestBytes) {
      run();
    } else if (auto status = context().workers->TrySchedule(caller().sharer, in->Length(), run);
               !status.ok()) {
      End(status);
    }
  }

 private:
  void Run(const grpc::ByteBuffer& in) {
    absl::Status status = rpc()->IsCancelled()
                              ? Refused(Reason::kCancelled, "the call was cancelled")
                              : absl::OkStatus();
    Request request;
    if (status.ok()) status = ParseMessage(in, &request);
    if constexpr (requires { request.session_id(); }) {
      OfSession(request.session_id());
    } else if constexpr (requires { request.session().session_id(); }) {
      OfSession(request.session().session_id());
    }
    if (status.ok()) status = TakeRoom(room_(request));
    Response response;
    if (status.ok()) status = handle_(caller(), request, &response);
    if (!status.ok()) return End(status);
    Answer(response);
  }

  const Handle handle_;
  const Room room_;
};

// Begins a call, which does not run at all for a caller who may not call `method`, a literal's.
template <typename Request, typename Response, typename Handle, typename Room = RoomLater>
grpc::ServerUnaryReactor* BeginUnaryCall(const CallContext& context, const MethodInfo& method,
                                         grpc::CallbackServerContext* rpc,
                                         const grpc::ByteBuffer* in, grpc::ByteBuffer* out,
                                         Handle handle, RunOn where = RunOn::kThisThread,
                                         Room room = {}) {
  const auto call = std::make_shared<UnaryCall<Request, Response, Handle, Room>>(
      context, method, rpc, out, std::move(handle), std::move(room));
  call->Begin(in, where);
  return call.get();  // holds itself until gRPC is done with it
}

}  // namespace tvq

#endif  // TVQ_SERVER_RPC_CALLS_UNARY_CALL_H_
