#include "server/rpc/calls/stream_call.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/refusal.h"

namespace tvq {
namespace {

// How long a large write may go on after the output behind it was dropped for want of room. If the
// client reads within this time, it gets the status.
constexpr std::chrono::milliseconds kPatienceWithoutRoom{1000};

int64_t BytesOf(const std::vector<TokenEvent>& tokens) {
  int64_t bytes = 0;
  for (const TokenEvent& token : tokens) bytes += 128 + 24 * std::ssize(token.top);
  return bytes;
}

int64_t BytesOf(const Delta& delta) { return 128 + std::ssize(delta.text) + BytesOf(delta.tokens); }

}  // namespace

absl::Status StreamCall::Submit(Request request) {
  if (!request.prompt.empty()) first_id_ = request.prompt.front();
  return EngineCall::Submit(std::move(request));
}

void StreamCall::OnStart() {
  const MutexLock lock(&mutex_);
  headers_wanted_ = true;
  ScheduleWrite();
}

void StreamCall::OnPrompt(int64_t first, std::vector<TokenEvent> events) {
  const int64_t done = first + static_cast<int64_t>(events.size());
  if (first == 0 && !events.empty()) events.front().token.id = first_id_;
  Filter(first, &events);
  KeepPrompt(events);
  const MutexLock lock(&mutex_);
  if (broken_since_) return;
  backlog_.prompt_done = done;
  backlog_.bytes += BytesOf(events);
  for (TokenEvent& event : events) backlog_.prompt.push_back(std::move(event));
  if (backlog_.bytes > kMaxBacklogBytes) wants_more_ = false;
  ScheduleWrite();
}

void StreamCall::OnDelta(Delta delta) {
  KeepDelta(delta);
  const MutexLock lock(&mutex_);
  if (broken_since_) return;
  // Not a last token: the end goes with it. Not behind a backlog: that may take long to convert.
  const bool first = !began_ && !delta.tokens.empty();
  const bool alone = backlog_.prompt.empty() && backlog_.deltas.empty();
  began_ = began_ || first;
  if (first && alone && delta.finish == FinishReason::kNone) write_here_ = true;
  backlog_.bytes += BytesOf(delta);
  backlog_.deltas.push_back(std::move(delta));
  if (backlog_.bytes > kMaxBacklogBytes) wants_more_ = false;
  if (!write_here_) AddWrite();
}

void StreamCall::OnDelivered() {
  if (std::exchange(write_here_, false)) Advance();
  rpc().thread->Ring();
}

std::optional<SteadyTime> StreamCall::broken_since() const {
  const MutexLock lock(&mutex_);
  return broken_since_;
}

void StreamCall::Conclude(const absl::Status& status, const Usage& usage,
                          std::optional<v1::SessionPosition> session) {
  if (!HasTail()) Worked();
  const MutexLock lock(&mutex_);
  done_ = status;
  if (in_flight_ && !finishing_) WatchAfterEnd();
  if (!broken_since_) CountWaiting();
  if (done_->ok() && !broken_since_) {
    backlog_.usage = usage;
    backlog_.session = std::move(session);
  }
  ScheduleWrite();
}

void StreamCall::CountWaiting() {
  const int64_t bytes = backlog_.bytes + in_flight_bytes_;
  const absl::Status room = TakeRoom(bytes);
  if (room.ok()) return;
  backlog_ = {};
  if (in_flight_bytes_ > kUncountedBytes) {
    reader().Arm(std::min(kPatienceWithoutRoom, context().stall_timeout), shared_from_this());
  }
  if (!done_->ok()) return;
  done_ = Refused(Reason::kMemoryFull,
                  absl::StrCat("the request has ended, but its reader is behind by ", bytes,
                               " bytes, for which there is no room: ", room.message()));
}

void StreamCall::WatchReader(std::chrono::milliseconds timeout) {
  const MutexLock lock(&mutex_);
  reader().Arm(timeout, shared_from_this());
}

void StreamCall::ReaderTook() {
  const MutexLock lock(&mutex_);
  reader().Disarm();
}

void StreamCall::WatchAfterEnd() { reader().Arm(context().stall_timeout, shared_from_this()); }

void StreamCall::AddWrite() {
  if (in_flight_ || scheduled_) return;  // what ends that calls Advance
  scheduled_ = true;
  rpc().thread->Add([self = Held(this)] { self->Advance(); });
}

void StreamCall::ScheduleWrite() {
  AddWrite();
  rpc().thread->Ring();
}

void StreamCall::Advance() {
  enum class Next { kHeaders, kMessage, kFinish } next;
  bool headers = false;  // with whatever is next
  Backlog taken;
  absl::Status status;
  bool wake = false;
  {
    const MutexLock lock(&mutex_);
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
  if (wake) context().engine->Wake();
  if (headers) SetHeaders();
  if (next == Next::kHeaders) {
    rpc().SendHeaders();
  } else if (next == Next::kMessage) {
    Write(taken);
  } else {
    FinishCall(status);
  }
}

void StreamCall::Write(const Backlog& backlog) {
  const absl::StatusOr<grpc::ByteBuffer> message = ToMessage(backlog);
  if (!message.ok()) {
    Break();
    {
      const MutexLock lock(&mutex_);
      finishing_ = true;
    }
    rpc().Finish(Finished(message.status()));  // the loop still has what LetGo would take
  } else if (!backlog.usage || HasTail()) {
    rpc().Write(*message);
  } else {
    rpc().WriteAndFinish(*message, Finished(absl::OkStatus()));
  }
}

void StreamCall::OnWritten(bool ok) {
  {
    const MutexLock lock(&mutex_);
    in_flight_ = false;
    in_flight_bytes_ = 0;
    reader().Disarm();
  }
  if (!ok) Break();
  Advance();
}

void StreamCall::Break() {
  {
    const MutexLock lock(&mutex_);
    if (!broken_since_) broken_since_ = std::chrono::steady_clock::now();
    backlog_ = {};
  }
  CancelRequest();
}

}  // namespace tvq
