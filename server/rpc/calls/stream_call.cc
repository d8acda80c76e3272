#include "server/rpc/calls/stream_call.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/rpc/transport/queued_stream.h"
#include "server/rpc/wire/status.h"

namespace tvq {
namespace {

// For which a large write may wait on when what it belongs to was dropped: a client that reads gets
// the status then.
constexpr std::chrono::milliseconds kPatienceWithoutRoom{1000};

int64_t BytesOf(const std::vector<TokenEvent>& tokens) {
  int64_t bytes = 0;
  for (const TokenEvent& token : tokens) bytes += 128 + 24 * std::ssize(token.top);
  return bytes;
}

int64_t BytesOf(const Delta& delta) { return 128 + std::ssize(delta.text) + BytesOf(delta.tokens); }

}  // namespace

template <typename Reactor>
bool StreamCall<Reactor>::Admit() {
  self_ = this->shared_from_this();
  const absl::Status admitted = scope_.Begin();
  if (!admitted.ok()) End(admitted);
  return admitted.ok();
}

template <typename Reactor>
absl::Status StreamCall<Reactor>::Submit(Request request) {
  if (!request.prompt.empty()) first_id_ = request.prompt.front();
  const bool uses_prefixes = request.purpose == Purpose::kGenerate;
  return in_engine_.Submit(std::move(request), caller(), this->shared_from_this(), rpc_,
                           uses_prefixes ? context_.sessions : nullptr);
}

template <typename Reactor>
absl::Status StreamCall<Reactor>::TakeRoom(int64_t bytes) {
  if (bytes <= kUncountedBytes) return absl::OkStatus();
  if (output_room_.bytes() == 0) {
    output_room_ = ByteQuota::Share(context_.answers, caller().sharer);
  }
  return output_room_.Add(bytes);
}

template <typename Reactor>
void StreamCall<Reactor>::Answer(const grpc::ByteBuffer& message) {
  {
    absl::MutexLock lock(&mutex_);
    finishing_ = true;
    reader_.Arm(context_.stall_timeout, this->shared_from_this());
  }
  message_ = message;
  rpc_->AddInitialMetadata("x-request-id", caller().request_id);
  this->StartWriteAndFinish(&message_, grpc::WriteOptions(), scope_.End(absl::OkStatus()));
}

template <typename Reactor>
void StreamCall<Reactor>::End(const absl::Status& status) {
  {
    absl::MutexLock lock(&mutex_);
    finishing_ = true;
  }
  this->Finish(scope_.End(status));
}

template <typename Reactor>
void StreamCall<Reactor>::Filter(int64_t, std::vector<TokenEvent>*) {}

template <typename Reactor>
void StreamCall<Reactor>::OnStart() {
  absl::MutexLock lock(&mutex_);
  headers_wanted_ = true;
  ScheduleWrite();
}

template <typename Reactor>
void StreamCall<Reactor>::OnPrompt(int64_t first, std::vector<TokenEvent> events) {
  const int64_t done = first + static_cast<int64_t>(events.size());
  if (first == 0 && !events.empty()) events.front().token.id = first_id_;
  Filter(first, &events);
  KeepPrompt(events);
  absl::MutexLock lock(&mutex_);
  if (broken_since_) return;
  backlog_.prompt_done = done;
  backlog_.bytes += BytesOf(events);
  for (TokenEvent& event : events) backlog_.prompt.push_back(std::move(event));
  if (backlog_.bytes > kMaxBacklogBytes) wants_more_ = false;
  ScheduleWrite();
}

template <typename Reactor>
void StreamCall<Reactor>::OnDelta(Delta delta) {
  KeepDelta(delta);
  absl::MutexLock lock(&mutex_);
  if (broken_since_) return;
  // The end, if there is no more, goes out with it; what waits already may be long to convert.
  const bool first = !began_ && !delta.tokens.empty();
  const bool alone = backlog_.prompt.empty() && backlog_.deltas.empty();
  began_ = began_ || first;
  if (first && alone && delta.finish == FinishReason::kNone) write_here_ = true;
  backlog_.bytes += BytesOf(delta);
  backlog_.deltas.push_back(std::move(delta));
  if (backlog_.bytes > kMaxBacklogBytes) wants_more_ = false;
  if (!write_here_) AddWrite();
}

template <typename Reactor>
void StreamCall<Reactor>::OnDelivered() {
  if (std::exchange(write_here_, false)) Advance();
  writer_->Ring();
}

template <typename Reactor>
void StreamCall<Reactor>::OnEnd(const absl::Status& status, const Usage& usage) {
  Settle(status, usage);
}

template <typename Reactor>
std::optional<SteadyTime> StreamCall<Reactor>::broken_since() const {
  absl::MutexLock lock(&mutex_);
  return broken_since_;
}

template <typename Reactor>
void StreamCall<Reactor>::Conclude(const absl::Status& status, const Usage& usage,
                                   std::optional<v1::SessionPosition> session) {
  if (!HasTail()) scope_.Worked();
  absl::MutexLock lock(&mutex_);
  done_ = status;
  if (in_flight_ && !finishing_) WatchAfterEnd();
  if (!broken_since_) CountWaiting();
  if (done_->ok() && !broken_since_) {
    backlog_.usage = usage;
    backlog_.session = std::move(session);
  }
  ScheduleWrite();
}

template <typename Reactor>
void StreamCall<Reactor>::CountWaiting() {
  const int64_t bytes = backlog_.bytes + in_flight_bytes_;
  const absl::Status room = TakeRoom(bytes);
  if (room.ok()) return;
  backlog_ = {};
  if (in_flight_bytes_ > kUncountedBytes) {
    reader_.Arm(std::min(kPatienceWithoutRoom, context_.stall_timeout), this->shared_from_this());
  }
  if (!done_->ok()) return;
  done_ = Refused(Reason::kMemoryFull,
                  absl::StrCat("the request has ended, but its reader is behind by ", bytes,
                               " bytes, for which there is no room: ", room.message()));
}

template <typename Reactor>
void StreamCall<Reactor>::WatchReader(std::chrono::milliseconds timeout) {
  absl::MutexLock lock(&mutex_);
  reader_.Arm(timeout, this->shared_from_this());
}

template <typename Reactor>
void StreamCall<Reactor>::ReaderTook() {
  absl::MutexLock lock(&mutex_);
  reader_.Disarm();
}

template <typename Reactor>
void StreamCall<Reactor>::WatchAfterEnd() {
  reader_.Arm(context_.stall_timeout, this->shared_from_this());
}

template <typename Reactor>
bool StreamCall<Reactor>::WantsMore() const {
  return wants_more_.load(std::memory_order_relaxed);
}

template <typename Reactor>
void StreamCall<Reactor>::AddWrite() {
  if (in_flight_ || scheduled_) return;  // what ends that calls Advance
  scheduled_ = true;
  writer_->Add([self = this->shared_from_this()] { self->Advance(); });
}

template <typename Reactor>
void StreamCall<Reactor>::ScheduleWrite() {
  AddWrite();
  writer_->Ring();
}

template <typename Reactor>
void StreamCall<Reactor>::Advance() {
  enum class Next { kHeaders, kMessage, kFinish } next;
  bool headers = false;  // with whatever is next
  Backlog taken;
  absl::Status status;
  bool wake = false;
  {
    absl::MutexLock lock(&mutex_);
    scheduled_ = false;
    if (in_flight_ || finishing_) return;
    if (!broken_since_) headers = std::exchange(headers_wanted_, false);
    if (!backlog_.empty() && !broken_since_) {
      next = Next::kMessage;
      taken = std::exchange(backlog_, {});
      wake = !wants_more_.exchange(true);
      in_flight_ = true;
      in_flight_bytes_ = taken.bytes;
      if (done_) WatchAfterEnd();
      finishing_ = taken.usage.has_value() && !HasTail();
    } else if (headers) {
      next = Next::kHeaders;
      in_flight_ = true;
    } else if (done_) {
      next = Next::kFinish;
      finishing_ = true;
      status = *done_;
    } else {
      return;
    }
  }
  if (wake) context_.engine->Wake();
  if (headers) rpc_->AddInitialMetadata("x-request-id", caller().request_id);
  if (next == Next::kHeaders) {
    this->StartSendInitialMetadata();
  } else if (next == Next::kMessage) {
    Write(taken);
  } else {
    FinishCall(status);
  }
}

template <typename Reactor>
void StreamCall<Reactor>::FinishCall(const absl::Status& status) {
  this->Finish(scope_.End(status));
}

template <typename Reactor>
void StreamCall<Reactor>::Write(const Backlog& backlog) {
  absl::StatusOr<grpc::ByteBuffer> message = ToMessage(backlog);
  if (!message.ok()) {
    CancelRequest();
    return End(message.status());
  }
  message_ = *std::move(message);
  if (!backlog.usage || HasTail()) return this->StartWrite(&message_);
  this->StartWriteAndFinish(&message_, grpc::WriteOptions(), scope_.End(absl::OkStatus()));
}

template <typename Reactor>
void StreamCall<Reactor>::OnOperationDone(bool ok) {
  {
    absl::MutexLock lock(&mutex_);
    in_flight_ = false;
    in_flight_bytes_ = 0;
    reader_.Disarm();
  }
  if (!ok) CancelRequest();
  Advance();
}

template <typename Reactor>
void StreamCall<Reactor>::OnCancel() {
  CancelRequest();
}

template <typename Reactor>
void StreamCall<Reactor>::CancelRequest() {
  {
    absl::MutexLock lock(&mutex_);
    if (!broken_since_) broken_since_ = std::chrono::steady_clock::now();
    backlog_ = {};
  }
  in_engine_.Cancel();
}

template <typename Reactor>
void StreamCall<Reactor>::OnDone() {
  reader_.Done();
  output_room_ = {};
  scope_.Done();
  self_.reset();
}

template class StreamCall<QueuedStream>;
template class StreamCall<grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>>;

}  // namespace tvq
