// A server-streaming call: gRPC's reactor on one side, the engine's sink on the other.
//
// Three kinds of threads meet here. The engine's loop brings output: it appends to a backlog and
// goes on. A writer, or gRPC's own thread when a write is done, takes the whole backlog as one
// message and starts the write. gRPC's threads bring cancellation. At most one gRPC operation is in
// flight, so a slow reader gets fewer, larger messages; when its backlog is full the engine pauses
// the request, and is woken when the backlog was taken.
#ifndef TVQ_SERVER_RPC_STREAM_CALL_H_
#define TVQ_SERVER_RPC_STREAM_CALL_H_

#include <grpcpp/server_context.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/server_callback.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "server/engine/request.h"
#include "server/rpc/call_context.h"

namespace tvq {

// Output that waits for the writer, in the engine's own form: it is converted off the loop.
struct Backlog {
  std::vector<TokenEvent> prompt;
  std::vector<Delta> deltas;
  std::optional<int64_t> prompt_done;  // prompt tokens computed so far, when that has changed
  std::optional<Usage> usage;          // the request finished well: the last message

  bool empty() const { return deltas.empty() && !prompt_done && !usage; }
};

// Held by gRPC until its OnDone and by the engine until the sink's OnDone, whichever is later.
class StreamCall : public grpc::ServerWriteReactor<grpc::ByteBuffer>,
                   public RequestSink,
                   public std::enable_shared_from_this<StreamCall> {
 public:
  // Tokens waiting above which the engine pauses the request; a few hundred bytes each at most.
  static constexpr int64_t kMaxBacklogTokens = 1024;

  // Text of a message above which further deltas wait for the next one. One delta may have as much.
  static constexpr size_t kMaxMessageText = 1 << 20;

  StreamCall(const CallContext& context, grpc::CallbackServerContext* rpc);

  // Reads the request and submits it, here or on a worker, if the caller may. Once, before the
  // reactor is returned.
  void Begin(const grpc::ByteBuffer& request);

  // gRPC's side.
  void OnSendInitialMetadataDone(bool ok) override { OnOperationDone(ok); }
  void OnWriteDone(bool ok) override { OnOperationDone(ok); }
  void OnCancel() override;
  void OnDone() override;

  // The engine's side.
  void OnStart() override;
  void OnPrompt(int64_t first, std::vector<TokenEvent> events) override;
  void OnDelta(Delta delta) override;
  void OnDone(const absl::Status& status, const Usage& usage) override;
  bool WantsMore() const override;

 protected:
  // A literal's.
  virtual const MethodInfo& Method() const = 0;
  // Parses and converts; may keep what ToMessage needs.
  virtual absl::StatusOr<Request> Read(const grpc::ByteBuffer& bytes) = 0;
  // Called before any ToMessage, on the loop: may drop what the client does not want.
  virtual void Filter(int64_t first, std::vector<TokenEvent>* events) = 0;
  // The next message, from everything that waits. Off the loop, one thread at a time.
  virtual absl::StatusOr<grpc::ByteBuffer> ToMessage(const Backlog& backlog) = 0;

  const CallContext& context() const { return context_; }
  // Known when Read is called.
  const Caller& caller() const { return caller_; }

 private:
  void Submit(const grpc::ByteBuffer& bytes);
  // Refuses a call that has not begun.
  void Refuse(const absl::Status& status);
  // Ends a call that is not in the engine.
  void End(const absl::Status& status);
  void OnOperationDone(bool ok);
  void ScheduleWrite() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // What the next message is made of; the rest stays.
  Backlog TakeBacklog() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Write(const Backlog& backlog);
  // Starts the next gRPC operation, if there is one to start and none in flight.
  void Advance();
  void CancelRequest();
  // Right before the call's last operation.
  void Record(const absl::Status& status) const;

  const CallContext& context_;
  grpc::CallbackServerContext* const rpc_;
  const absl::Time start_;
  Caller caller_;                     // set by Begin, constant from then on
  std::shared_ptr<StreamCall> self_;  // gRPC's share; reset by its OnDone

  int32_t first_id_ = 0;  // of the prompt, which the engine leaves out; set before Submit

  std::atomic<bool> wants_more_{true};
  grpc::ByteBuffer message_;  // of the write in flight

  absl::Mutex mutex_;
  Backlog backlog_ ABSL_GUARDED_BY(mutex_);
  int64_t backlog_tokens_ ABSL_GUARDED_BY(mutex_) = 0;
  bool headers_wanted_ ABSL_GUARDED_BY(mutex_) = false;
  bool scheduled_ ABSL_GUARDED_BY(mutex_) = false;  // a writer will call Advance
  bool in_flight_ ABSL_GUARDED_BY(mutex_) = false;  // a gRPC operation
  bool broken_ ABSL_GUARDED_BY(mutex_) = false;     // the client is gone: output is dropped
  bool finishing_ ABSL_GUARDED_BY(mutex_) = false;  // Finish was called
  std::optional<absl::Status> done_ ABSL_GUARDED_BY(mutex_);  // the request's end
  RequestHandle handle_ ABSL_GUARDED_BY(mutex_) = 0;
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace tvq

#endif  // TVQ_SERVER_RPC_STREAM_CALL_H_
