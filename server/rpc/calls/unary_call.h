// A unary method as a function from message to message.
#ifndef TVQ_SERVER_RPC_CALLS_UNARY_CALL_H_
#define TVQ_SERVER_RPC_CALLS_UNARY_CALL_H_

#include <grpcpp/support/byte_buffer.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "base/refusal.h"
#include "server/rpc/calls/call.h"
#include "server/rpc/wire/wire.h"

namespace tvq {

// Where a unary method runs.
enum class RunOn {
  kThisThread,    // or, for a large request, on a worker
  kWorkers,       // may take long
  kSessionTasks,  // may block
};

template <typename Request, typename Response>
struct UnaryMethod {
  MethodInfo info;
  // A method that fails has done nothing.
  std::function<absl::Status(const Caller&, const Request&, Response*)> handle;
  RunOn where = RunOn::kThisThread;
  // Of a short request, whether it is one for the workers nevertheless; null: none is.
  std::function<bool(const grpc::ByteBuffer&)> takes_long = nullptr;
  // The bytes of the answer for which there must be room before the method does anything; null: the
  // answer is counted when it is made, as nothing was done that would have to be undone.
  std::function<int64_t(const Request&)> room = nullptr;
};

template <typename Request, typename Response>
class UnaryCall final : public Call {
 public:
  using Method = UnaryMethod<Request, Response>;

  UnaryCall(const CallContext& context, const Method& method, std::unique_ptr<Rpc> rpc)
      : Call(context, method.info, std::move(rpc)), method_(method) {}

  void Begin() override {
    const grpc::ByteBuffer in = TakeRequest();
    if (!Admit()) return;
    const auto run = [self = Held(this), in] { self->Run(in); };
    if (method_.where == RunOn::kSessionTasks) return OnSessionTasks(in.Length(), run);
    const bool is_short = method_.where == RunOn::kThisThread &&
                          in.Length() <= kInlineRequestBytes &&
                          !(method_.takes_long && method_.takes_long(in));
    is_short ? Run(in) : OnWorkers(in.Length(), run);
  }

 private:
  void Run(const grpc::ByteBuffer& in) {
    absl::Status status =
        IsCancelled() ? Refused(Reason::kCancelled, "the call was cancelled") : absl::OkStatus();
    Request request;
    if (status.ok()) status = ParseMessage(in, &request);
    if constexpr (requires { request.session_id(); }) {
      OfSession(request.session_id());
    } else if constexpr (requires { request.session().session_id(); }) {
      OfSession(request.session().session_id());
    }
    if (status.ok() && method_.room) status = TakeRoom(method_.room(request));
    Response response;
    if (status.ok()) status = method_.handle(caller(), request, &response);
    if (!status.ok()) return End(status);
    Answer(response);
  }

  const Method& method_;
};

}  // namespace tvq

#endif  // TVQ_SERVER_RPC_CALLS_UNARY_CALL_H_
