// A call that streams output.
//
// Two threads meet here. The engine's loop brings output: it appends to a backlog and goes on. The
// rpc's thread takes the whole backlog as one message and starts the write; the end of a write and
// the client's cancellation come there, too. At most one write is in flight, so a slow reader gets
// fewer, larger messages; when its backlog is full the engine pauses the request, and is woken when
// the backlog was taken.
//
// The loop itself starts the write of the first token. If the model uses all cores, a woken thread
// has to wait for a core, mostly until the system's next tick. The loop does this only if nothing
// else of the stream waits or is in flight, for that would keep it longer, and if the token is not
// the last. Later tokens wait for the rpc's thread. With a fast model several of them go out
// together, which costs less.
#ifndef TVQ_SERVER_RPC_CALLS_STREAM_CALL_H_
#define TVQ_SERVER_RPC_CALLS_STREAM_CALL_H_

#include <grpcpp/support/byte_buffer.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "server/engine/request/request.h"
#include "server/rpc/calls/engine_call.h"
#include "tvq/v1/session.pb.h"

namespace tvq {

// Output that waits for the rpc's thread, in the engine's own form: but for that of a step in which
// a first token comes alone, it is converted off the loop.
struct Backlog {
  std::vector<TokenEvent> prompt;
  std::vector<Delta> deltas;
  std::optional<int64_t> prompt_done;  // prompt tokens computed so far, when that has changed
  std::optional<Usage> usage;          // the request finished well: the last message
  std::optional<v1::SessionPosition> session;  // with `usage`: where the session is now
  int64_t bytes = 0;                           // about what it takes, here or as a message

  bool empty() const { return deltas.empty() && !prompt_done && !usage; }
};

class StreamCall : public EngineCall {
 public:
  // Bytes waiting above which the engine pauses the request: some 500 tokens that come one by one.
  static constexpr int64_t kMaxBacklogBytes = 128 << 10;

  using EngineCall::EngineCall;

  // The rpc's side.
  void OnWritten(bool ok) override;
  void OnCancel() override { Break(); }

  // The engine's side.
  void OnStart() override;
  void OnPrompt(int64_t first, std::vector<TokenEvent> events) override;
  void OnDelta(Delta delta) override;
  void OnDelivered() override;
  void OnEnd(const absl::Status& status, const Usage& usage) override { Settle(status, usage); }
  bool WantsMore() const override { return wants_more_.load(std::memory_order_relaxed); }

 protected:
  absl::Status Submit(Request request);

  // Called before any ToMessage, on the loop: may drop what the client does not want.
  virtual void Filter(int64_t /*first*/, std::vector<TokenEvent>* /*events*/) {}
  // The output once more, on the loop, for calls that keep it.
  virtual void KeepPrompt(const std::vector<TokenEvent>&) {}
  virtual void KeepDelta(const Delta&) {}
  // The next message, from everything that waits. One thread at a time: the rpc's or, with a first
  // token that waits alone, the loop.
  virtual absl::StatusOr<grpc::ByteBuffer> ToMessage(const Backlog& backlog) = 0;

  // What the engine's end leads to: Conclude, in the end. On the loop.
  virtual void Settle(const absl::Status& status, const Usage& usage) { Conclude(status, usage); }
  void Conclude(const absl::Status& status, const Usage& usage,
                std::optional<v1::SessionPosition> session = std::nullopt);

  // Whether something follows the last message. If so, that message does not finish the call.
  virtual bool HasTail() const { return false; }
  // Called after all messages, unless the last message has finished the call.
  virtual void FinishCall(const absl::Status& status) { End(status); }

  // Before and after each write of what follows the last message.
  void WatchReader(std::chrono::milliseconds timeout);
  void ReaderTook();
  // Since when the client is gone; unset: it is not.
  std::optional<SteadyTime> broken_since() const;

 private:
  void ScheduleWrite() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The same once the rpc's thread is rung.
  void AddWrite() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Write(const Backlog& backlog);
  // Starts the next write, if there is one to start and none in flight.
  void Advance();
  // The client is gone, or can be sent nothing more.
  void Break();
  // While the request runs the engine watches the reader, afterwards the guard.
  void WatchAfterEnd() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The request has ended: what waits for the reader needs room, or is dropped.
  void CountWaiting() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  int32_t first_id_ = 0;  // of the prompt, which the engine leaves out; set before Submit

  // The loop's alone.
  bool began_ = false;       // it has brought a token
  bool write_here_ = false;  // the first one, alone: to be written once all have theirs

  std::atomic<bool> wants_more_{true};

  mutable Mutex mutex_;  // from Submit on over reader(), too, until gRPC is done with the call
  Backlog backlog_ ABSL_GUARDED_BY(mutex_);
  bool headers_wanted_ ABSL_GUARDED_BY(mutex_) = false;
  bool scheduled_ ABSL_GUARDED_BY(mutex_) = false;  // the rpc's thread will call Advance
  bool in_flight_ ABSL_GUARDED_BY(mutex_) = false;  // a write, or the headers
  int64_t in_flight_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  std::optional<SteadyTime> broken_since_ ABSL_GUARDED_BY(mutex_);  // output is dropped
  bool finishing_ ABSL_GUARDED_BY(mutex_) = false;                  // the rpc is finished
  std::optional<absl::Status> done_ ABSL_GUARDED_BY(mutex_);        // the request's end
};

}  // namespace tvq

#endif  // TVQ_SERVER_RPC_CALLS_STREAM_CALL_H_
