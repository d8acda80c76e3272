// A call that streams output: gRPC's reactor on one side, the engine's sink on the other.
//
// Three kinds of threads meet here. The engine's loop brings output: it appends to a backlog and
// goes on. A writer takes the whole backlog as one message and starts the write. The end of a write
// and the client's cancellation come on the writer's thread, too, or, of a call with callbacks, on
// those of gRPC. At most one gRPC operation is in flight, so a slow reader gets fewer, larger
// messages; when its backlog is full the engine pauses the request, and is woken when the backlog
// was taken.
//
// The first token's write starts on the loop itself: a writer that is woken where the model has all
// cores waits for one, mostly until the system's next tick. That is so where nothing else of the
// stream waits or is in flight, which would keep the loop longer, and where the token is not the
// last. Later tokens wait for the writer; those of a fast model then go out together, which costs
// less.
#ifndef TVQ_SERVER_RPC_CALLS_STREAM_CALL_H_
#define TVQ_SERVER_RPC_CALLS_STREAM_CALL_H_

#include <grpcpp/server_context.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/server_callback.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "server/engine/request/request.h"
#include "server/rpc/calls/call_context.h"
#include "server/rpc/calls/call_scope.h"
#include "server/rpc/calls/engine_request.h"
#include "server/rpc/limits/byte_quota.h"
#include "server/rpc/limits/reader_guard.h"
#include "server/rpc/transport/stream_writer.h"
#include "tvq/v1/session.pb.h"

namespace tvq {

// Output that waits for the writer, in the engine's own form: but for that of a step in which a
// first token comes alone, it is converted off the loop.
struct Backlog {
  std::vector<TokenEvent> prompt;
  std::vector<Delta> deltas;
  std::optional<int64_t> prompt_done;  // prompt tokens computed so far, when that has changed
  std::optional<Usage> usage;          // the request finished well: the last message
  std::optional<v1::SessionPosition> session;  // with `usage`: where the session is now
  int64_t bytes = 0;                           // about what it takes, here or as a message

  bool empty() const { return deltas.empty() && !prompt_done && !usage; }
};

// Held by gRPC until its OnDone and by the engine until the sink's OnEnd, whichever is later.
// `Reactor` is QueuedStream or grpc::ServerBidiReactor.
template <typename Reactor>
class StreamCall : public Reactor,
                   public RequestSink,
                   public std::enable_shared_from_this<StreamCall<Reactor>> {
 public:
  // Bytes waiting above which the engine pauses the request: some 500 tokens that come one by one.
  static constexpr int64_t kMaxBacklogBytes = 128 << 10;

  // The last arguments are the reactor's.
  template <typename... Args>
  StreamCall(const CallContext& context, const MethodInfo& method, grpc::ServerContextBase* rpc,
             StreamWriter* writer, Args&&... reactor)
      : Reactor(std::forward<Args>(reactor)...),
        context_(context),
        rpc_(rpc),
        writer_(writer),
        scope_(context, method, rpc),
        in_engine_(context.engine),
        reader_(rpc) {}

  // gRPC's side.
  void OnSendInitialMetadataDone(bool ok) override { OnOperationDone(ok); }
  void OnWriteDone(bool ok) override { OnOperationDone(ok); }
  void OnCancel() override;
  void OnDone() override;

  // The engine's side.
  void OnStart() override;
  void OnPrompt(int64_t first, std::vector<TokenEvent> events) override;
  void OnDelta(Delta delta) override;
  void OnDelivered() override;
  void OnEnd(const absl::Status& status, const Usage& usage) override;
  bool WantsMore() const override;

 protected:
  // First of all; the call keeps itself alive from here on. False: it is refused.
  bool Admit();
  // Hands the request to the engine. On an error there will be no output: End.
  absl::Status Submit(Request request);
  // Ends a call that is not in the engine.
  void End(const absl::Status& status);
  // Takes room for so much output, if it counts, until gRPC is done with the call.
  // RESOURCE_EXHAUSTED of ByteQuota. One thread at a time.
  absl::Status TakeRoom(int64_t bytes);
  // Answers a call that has not begun with one message.
  void Answer(const grpc::ByteBuffer& message);

  // Called before any ToMessage, on the loop: may drop what the client does not want.
  virtual void Filter(int64_t first, std::vector<TokenEvent>* events);
  // The output once more, on the loop, for calls that keep it.
  virtual void KeepPrompt(const std::vector<TokenEvent>&) {}
  virtual void KeepDelta(const Delta&) {}
  // The next message, from everything that waits. One thread at a time: a writer or, with a first
  // token that waits alone, the loop.
  virtual absl::StatusOr<grpc::ByteBuffer> ToMessage(const Backlog& backlog) = 0;

  // What the engine's end leads to: Conclude, in the end. On the loop.
  virtual void Settle(const absl::Status& status, const Usage& usage) { Conclude(status, usage); }
  void Conclude(const absl::Status& status, const Usage& usage,
                std::optional<v1::SessionPosition> session = std::nullopt);

  // Whether something follows the last message; then FinishCall is not part of that.
  virtual bool HasTail() const { return false; }
  // After everything else.
  virtual void FinishCall(const absl::Status& status);

  void OfSession(const std::string& id) { scope_.OfSession(id); }

  const CallContext& context() const { return context_; }
  grpc::ServerContextBase* rpc() const { return rpc_; }
  const CallScope& scope() const { return scope_; }
  // Known once admitted.
  const Caller& caller() const { return scope_.caller(); }
  // Before and after each write of what follows the last message.
  void WatchReader(std::chrono::milliseconds timeout);
  void ReaderTook();
  // Since when the client is gone; unset: it is not.
  std::optional<SteadyTime> broken_since() const;

 private:
  void OnOperationDone(bool ok);
  void ScheduleWrite() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The same once the writer is rung.
  void AddWrite() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Write(const Backlog& backlog);
  // Starts the next gRPC operation, if there is one to start and none in flight.
  void Advance();
  void CancelRequest();
  // While the request runs the engine watches the reader, afterwards the guard.
  void WatchAfterEnd() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The request has ended: what waits for the reader needs room, or is dropped.
  void CountWaiting() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const CallContext& context_;
  grpc::ServerContextBase* const rpc_;
  StreamWriter* const writer_;
  CallScope scope_;
  EngineRequest in_engine_;
  std::shared_ptr<StreamCall> self_;  // gRPC's share; reset by its OnDone

  ByteQuota::Share output_room_;  // TakeRoom's
  int32_t first_id_ = 0;          // of the prompt, which the engine leaves out; set before Submit

  // The loop's alone.
  bool began_ = false;       // it has brought a token
  bool write_here_ = false;  // the first one, alone: to be written once all have theirs

  std::atomic<bool> wants_more_{true};
  grpc::ByteBuffer message_;  // of the write in flight

  mutable absl::Mutex mutex_;
  Backlog backlog_ ABSL_GUARDED_BY(mutex_);
  bool headers_wanted_ ABSL_GUARDED_BY(mutex_) = false;
  bool scheduled_ ABSL_GUARDED_BY(mutex_) = false;  // a writer will call Advance
  bool in_flight_ ABSL_GUARDED_BY(mutex_) = false;  // a gRPC operation
  int64_t in_flight_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  // The client is gone: output is dropped.
  std::optional<SteadyTime> broken_since_ ABSL_GUARDED_BY(mutex_);
  bool finishing_ ABSL_GUARDED_BY(mutex_) = false;            // Finish was called
  std::optional<absl::Status> done_ ABSL_GUARDED_BY(mutex_);  // the request's end
  ReaderGuard reader_;  // under mutex_, until gRPC is done with the call
};

}  // namespace tvq

#endif  // TVQ_SERVER_RPC_CALLS_STREAM_CALL_H_
