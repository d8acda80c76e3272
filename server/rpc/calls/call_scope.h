#ifndef TVQ_SERVER_RPC_CALLS_CALL_SCOPE_H_
#define TVQ_SERVER_RPC_CALLS_CALL_SCOPE_H_

#include <grpcpp/server_context.h>
#include <grpcpp/support/status.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "server/rpc/calls/call_context.h"
#include "server/rpc/limits/byte_quota.h"
#include "server/rpc/wire/status.h"

namespace tvq {

inline constexpr size_t kMaxLoggedId = 128;

// What every call does at its beginning and at its end. One thread at a time.
class CallScope {
 public:
  // `method` is a literal's.
  CallScope(const CallContext& context, const MethodInfo& method, grpc::ServerContextBase* rpc)
      : context_(context), method_(method), rpc_(rpc) {}

  // First of all, once. Not OK: End the call with it.
  absl::Status Begin() {
    came_ = context_.open_calls->Begin();
    if (auto status = context_.gate->Admit(method_, rpc_, &caller_); !status.ok()) return status;
    const bool counts = method_.permission != Permission::kAdmin;  // those are needed under load
    if (!counts) return absl::OkStatus();
    share_ = ByteQuota::Share(context_.calls, caller_.sharer);
    return share_.Add(1);
  }

  // What to Finish with, right then; of a call that is not done, with the trailer that goes along.
  grpc::Status End(const absl::Status& status) const {
    context_.recorder->Finished(
        {method_, caller_, status, absl::FromChrono(std::chrono::steady_clock::now() - start_)});
    if (!status.ok()) AddRetryPushback(status, rpc_);
    return ToGrpc(status);
  }

  // Names the session that the call is about, for logs: what the client sent, perhaps no id. Before
  // End.
  void OfSession(const std::string& id) { caller_.session_id = id.substr(0, kMaxLoggedId); }

  // Nothing is left but what the client may read. Any thread, after Begin; Done does it otherwise.
  void Worked() {
    if (!worked_.exchange(true)) context_.open_calls->Worked(came_);
  }

  // Last, when gRPC is done with the call.
  void Done() {
    Worked();
    share_ = {};
    context_.open_calls->End();
  }

  // Constant after Begin, but for OfSession.
  const Caller& caller() const { return caller_; }
  const MethodInfo& method() const { return method_; }

 private:
  const CallContext& context_;
  const MethodInfo& method_;
  grpc::ServerContextBase* const rpc_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  Caller caller_;
  OpenCalls::Came came_ = OpenCalls::Came::kBefore;
  std::atomic<bool> worked_ = false;
  ByteQuota::Share share_;
};

}  // namespace tvq

#endif  // TVQ_SERVER_RPC_CALLS_CALL_SCOPE_H_
