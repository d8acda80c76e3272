#include "server/rpc/stream_call.h"

#include <iterator>
#include <utility>

#include "absl/time/clock.h"
#include "server/rpc/status.h"

namespace tvq {
namespace {

int64_t Weight(const Delta& delta) { return 1 + static_cast<int64_t>(delta.tokens.size()); }

}  // namespace

StreamCall::StreamCall(const CallContext& context, grpc::CallbackServerContext* rpc)
    : context_(context), rpc_(rpc), start_(absl::Now()) {}

void StreamCall::Begin(const grpc::ByteBuffer& request) {
  context_.open_calls->Begin();
  self_ = shared_from_this();
  const absl::Status admitted = context_.gate->Admit(Method(), rpc_, &caller_);
  if (!admitted.ok()) return End(admitted);
  if (request.Length() <= kInlineRequestBytes) return Submit(request);
  // The copy shares the bytes.
  if (context_.workers->TrySchedule(request.Length(),
                                    [self = self_, request] { self->Submit(request); })) {
    return;
  }
  const absl::Status busy = WorkersBusy();
  AddRetryPushback(busy, /*fits_idle_server=*/true, rpc_);
  Refuse(busy);
}

void StreamCall::Submit(const grpc::ByteBuffer& bytes) {
  if (rpc_->IsCancelled()) return Refuse(absl::CancelledError("the call was cancelled"));
  absl::StatusOr<Request> request = Read(bytes);
  if (!request.ok()) return Refuse(request.status());
  request->id = caller_.request_id;
  request->deadline = ToSteady(rpc_->deadline());
  request->sink = shared_from_this();
  first_id_ = request->prompt.front();
  const std::string model = request->model;
  const int64_t sequences = request->purpose == Purpose::kScore ? 1 : request->sampling.n;
  const absl::StatusOr<RequestHandle> handle = context_.engine->Submit(*std::move(request));
  if (!handle.ok()) {
    const absl::StatusOr<ModelCapacity> capacity = context_.engine->Capacity(model);
    AddRetryPushback(handle.status(), capacity.ok() && sequences <= capacity->max_sessions, rpc_);
    return Refuse(handle.status());
  }
  bool cancelled;
  {
    absl::MutexLock lock(&mutex_);
    handle_ = *handle;
    cancelled = cancelled_;
  }
  if (cancelled) context_.engine->Cancel(*handle);
}

void StreamCall::Refuse(const absl::Status& status) {
  context_.recorder->Rejected(status);
  End(status);
}

void StreamCall::End(const absl::Status& status) {
  {
    absl::MutexLock lock(&mutex_);
    finishing_ = true;
  }
  Record(status);
  Finish(ToGrpc(status));
}

void StreamCall::OnStart() {
  absl::MutexLock lock(&mutex_);
  headers_wanted_ = true;
  ScheduleWrite();
}

void StreamCall::OnPrompt(int64_t first, std::vector<TokenEvent> events) {
  const int64_t done = first + static_cast<int64_t>(events.size());
  if (first == 0 && !events.empty()) events.front().token.id = first_id_;
  Filter(first, &events);
  absl::MutexLock lock(&mutex_);
  if (broken_) return;
  backlog_.prompt_done = done;
  backlog_tokens_ += static_cast<int64_t>(events.size());
  for (TokenEvent& event : events) backlog_.prompt.push_back(std::move(event));
  if (backlog_tokens_ > kMaxBacklogTokens) wants_more_ = false;
  ScheduleWrite();
}

void StreamCall::OnDelta(Delta delta) {
  absl::MutexLock lock(&mutex_);
  if (broken_) return;
  backlog_tokens_ += Weight(delta);
  backlog_.deltas.push_back(std::move(delta));
  if (backlog_tokens_ > kMaxBacklogTokens) wants_more_ = false;
  ScheduleWrite();
}

void StreamCall::OnDone(const absl::Status& status, const Usage& usage) {
  absl::MutexLock lock(&mutex_);
  done_ = status;
  if (status.ok() && !broken_) backlog_.usage = usage;
  ScheduleWrite();
}

bool StreamCall::WantsMore() const { return wants_more_.load(std::memory_order_relaxed); }

void StreamCall::ScheduleWrite() {
  if (in_flight_ || scheduled_) return;  // whoever ends that calls Advance
  scheduled_ = true;
  context_.writers->Schedule([self = shared_from_this()] { self->Advance(); });
}

void StreamCall::Advance() {
  enum class Next { kHeaders, kMessage, kFinish } next;
  Backlog taken;
  absl::Status status;
  bool wake = false;
  {
    absl::MutexLock lock(&mutex_);
    scheduled_ = false;
    if (in_flight_ || finishing_) return;
    if (headers_wanted_ && !broken_) {
      next = Next::kHeaders;
      headers_wanted_ = false;
      in_flight_ = true;
    } else if (!backlog_.empty() && !broken_) {
      next = Next::kMessage;
      taken = TakeBacklog();
      if (backlog_tokens_ <= kMaxBacklogTokens) wake = !wants_more_.exchange(true);
      in_flight_ = true;
      finishing_ = taken.usage.has_value();
    } else if (done_) {
      next = Next::kFinish;
      finishing_ = true;
      status = *done_;
    } else {
      return;
    }
  }
  if (wake) context_.engine->Wake();
  if (next == Next::kHeaders) {
    rpc_->AddInitialMetadata("x-request-id", caller_.request_id);
    StartSendInitialMetadata();
  } else if (next == Next::kMessage) {
    Write(taken);
  } else {
    Record(status);
    Finish(ToGrpc(status));
  }
}

Backlog StreamCall::TakeBacklog() {
  size_t count = 0;
  size_t text = 0;
  while (count < backlog_.deltas.size()) {
    text += backlog_.deltas[count].text.size();
    if (count > 0 && text > kMaxMessageText) break;
    ++count;
  }
  if (count == backlog_.deltas.size()) {
    backlog_tokens_ = 0;
    return std::exchange(backlog_, {});
  }
  const auto end = backlog_.deltas.begin() + static_cast<std::ptrdiff_t>(count);
  Backlog taken{
      .prompt = std::exchange(backlog_.prompt, {}),
      .deltas = {std::make_move_iterator(backlog_.deltas.begin()), std::make_move_iterator(end)},
      .prompt_done = std::exchange(backlog_.prompt_done, std::nullopt)};
  backlog_.deltas.erase(backlog_.deltas.begin(), end);
  backlog_tokens_ = 0;
  for (const Delta& delta : backlog_.deltas) backlog_tokens_ += Weight(delta);
  return taken;
}

void StreamCall::Write(const Backlog& backlog) {
  absl::StatusOr<grpc::ByteBuffer> message = ToMessage(backlog);
  if (!message.ok()) {
    CancelRequest();
    return End(message.status());
  }
  message_ = *std::move(message);
  if (!backlog.usage) return StartWrite(&message_);
  Record(absl::OkStatus());
  StartWriteAndFinish(&message_, grpc::WriteOptions(), grpc::Status::OK);
}

void StreamCall::OnOperationDone(bool ok) {
  {
    absl::MutexLock lock(&mutex_);
    in_flight_ = false;
  }
  if (!ok) CancelRequest();
  Advance();
}

void StreamCall::OnCancel() { CancelRequest(); }

void StreamCall::CancelRequest() {
  RequestHandle handle;
  {
    absl::MutexLock lock(&mutex_);
    broken_ = true;
    backlog_ = {};
    cancelled_ = true;
    handle = handle_;
  }
  if (handle != 0) context_.engine->Cancel(handle);
}

void StreamCall::OnDone() {
  context_.open_calls->End();
  self_.reset();
}

void StreamCall::Record(const absl::Status& status) const {
  context_.recorder->Finished({Method(), caller_, status, absl::Now() - start_});
}

}  // namespace tvq
