// A call of one of our methods, from its beginning to its end.
#ifndef TVQ_SERVER_RPC_CALLS_CALL_H_
#define TVQ_SERVER_RPC_CALLS_CALL_H_

#include <google/protobuf/message.h>
#include <grpcpp/server_context.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/status.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "server/rpc/access/caller.h"
#include "server/rpc/calls/call_context.h"
#include "server/rpc/limits/byte_quota.h"
#include "server/rpc/limits/reader_guard.h"
#include "server/rpc/transport/rpc.h"

namespace tvq {

// How fast a client must take a large answer at least, in bytes a second.
inline constexpr int64_t kSlowestReader = int64_t{4} << 20;

// Larger ones are on their way for longer than a server that stops gives its readers.
inline constexpr int64_t kSmallAnswerBytes = int64_t{1} << 20;

// Held by gRPC from Begin until OnDone. One thread at a time calls what is protected.
class Call : public RpcListener, public std::enable_shared_from_this<Call> {
 public:
  // `method` is a literal's. Large output takes room of `room`, by default of the answers'.
  Call(const CallContext& context, const MethodInfo& method, std::unique_ptr<Rpc> rpc,
       ByteQuota* room = nullptr);
  virtual ~Call() = default;

  // Once, on the rpc's thread.
  virtual void Begin() = 0;

  void OnDone() override;

 protected:
  // First of all. False: the call is refused, and has ended.
  bool Admit();
  // The request, which is not kept for as long as the call is open. Once.
  grpc::ByteBuffer TakeRequest();

  // Run the rest of the call, which keeps so many bytes, where it may compute for long, or where it
  // may block; or End it, as there is no room. The task must hold the call.
  void OnWorkers(size_t bytes, std::function<void()> task);
  void OnSessionTasks(size_t bytes, std::function<void()> task);

  // Takes room for `bytes` of output in all, until gRPC is done with the call. Output of at most
  // kUncountedBytes needs none. RESOURCE_EXHAUSTED of ByteQuota.
  absl::Status TakeRoom(int64_t bytes);

  // Lets go of what the call has; before the client hears of the end and tries again.
  virtual void LetGo() {}
  void End(const absl::Status& status);
  // Ends the call with an answer, or with an error if the answer is too large or there is no room
  // for it. A call that does what cannot be undone takes room before that, or has a small answer. A
  // client loses the answer if it does not take all of it within the stall timeout plus the time
  // that the answer needs at kSlowestReader.
  void Answer(const google::protobuf::Message& message);
  void Answer(const absl::StatusOr<grpc::ByteBuffer>& message);

  // The status to finish the rpc with, to be used at once: this also records the end of the call.
  // For an error it adds the trailer that belongs to it. End and Answer call this.
  grpc::Status Finished(const absl::Status& status);
  void SetHeaders();
  // Tells that only the client's reading is left. Any thread. OnDone does so if nothing else has.
  void Worked();

  // Names the session that the call is about, for logs: what the client sent, perhaps no id.
  void OfSession(const std::string& id);

  bool IsCancelled() const { return rpc_->context.IsCancelled(); }
  const CallContext& context() const { return context_; }
  Rpc& rpc() const { return *rpc_; }
  const Caller& caller() const { return caller_; }  // known once admitted
  // Cancels the call when the client does not take what is being written. OnDone ends it.
  ReaderGuard& reader() { return reader_; }

 private:
  absl::Status Enter();

  const CallContext& context_;
  const MethodInfo& method_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  const std::unique_ptr<Rpc> rpc_;
  ByteQuota* const quota_;
  Caller caller_;  // constant once admitted, but for the session
  OpenCalls::Came came_ = OpenCalls::Came::kBefore;
  std::atomic<bool> worked_ = false;
  ByteQuota::Share place_;  // among the open calls
  ByteQuota::Share room_;   // of output that counts
  ReaderGuard reader_;
  std::shared_ptr<Call> self_;  // gRPC's share; reset by its OnDone
};

// The call as its own class, held.
template <typename T>
std::shared_ptr<T> Held(T* call) {
  return {call->shared_from_this(), call};
}

}  // namespace tvq

#endif  // TVQ_SERVER_RPC_CALLS_CALL_H_
