#include "client/loadtest/driver/conversation.h"

#include <utility>

namespace tvq::loadtest {
namespace {

// The server may still be ending a turn that was cancelled here, and holds the session meanwhile.
constexpr int kMaxDeletions = 20;
constexpr Nanos kPauseBeforeDeletion = 50 * kMillisecond;

// That of gRPC and that of HTTP.
bool IsNotFound(const std::string& status) { return status == "NOT_FOUND" || status == "404"; }

}  // namespace

Conversation::Conversation(uint64_t id, Nanos due, const Environment* environment,
                           const Hooks* hooks)
    : id_(id),
      environment_(*environment),
      hooks_(*hooks),
      random_(environment->workload->seed, id + 1),
      turns_left_(environment->workload->sessions ? environment->workload->turns.Draw(random_)
                                                  : 1) {
  BeginRequest(due);
}

Nanos Conversation::Now() const { return environment_.transport->Now() - environment_.origin; }

void Conversation::BeginRequest(Nanos due) {
  const Workload& workload = *environment_.workload;
  request_ = {.intended = due, .sent = -1, .attempts = 0};
  spec_ = {.prompt = workload.prompts->Draw(random_),
           .max_tokens = workload.output.Draw(random_),
           .seed = random_.Next(),
           .session_id = session_id_};
  const double kind = random_.Uniform();
  cancel_after_ = 0;
  if (kind < workload.slow_readers) {
    request_.behaviour = Behaviour::kSlowReader;
    spec_.read_pause = workload.read_pause;
  } else if (kind < workload.slow_readers + workload.cancels) {
    request_.behaviour = Behaviour::kCancels;
    spec_.count_tokens = true;
    cancel_after_ = 1 + static_cast<int64_t>(random_.Below(spec_.max_tokens));
  }
}

void Conversation::Start() {
  if (!environment_.workload->sessions) return Send();
  stage_ = Stage::kCreate;
  call_sent_ = request_.sent = Now();
  call_ = environment_.transport->CreateSession(this);
}

void Conversation::Send() {
  stage_ = Stage::kGenerate;
  cancel_reason_ = CancelReason::kNone;
  retry_after_.reset();
  call_sent_ = Now();
  ++request_.attempts;
  // Of a session's first request, creating the session is a part.
  if (request_.sent < 0) request_.sent = call_sent_;
  call_ = environment_.transport->Generate(spec_, this);
}

void Conversation::Wake() {
  if (stage_ == Stage::kWait) return Send();
  if (stage_ == Stage::kWaitToDelete) Delete();
}

void Conversation::Cancel(CancelReason reason) {
  if (call_ == nullptr || cancel_reason_ != CancelReason::kNone) return;
  cancel_reason_ = reason;
  cancelled_at_ = Now();
  call_->Cancel();
}

void Conversation::CheckTimeout() {
  if (call_ != nullptr && Now() - call_sent_ > environment_.timeout) Cancel(CancelReason::kTimeout);
}

void Conversation::Stop() {
  if (stage_ == Stage::kWait && request_.attempts == 0) Finish();
}

void Conversation::Abandon() {
  if (std::exchange(abandoned_, true)) return;
  if (call_ != nullptr) {
    if (stage_ != Stage::kDelete) Cancel(CancelReason::kAbandoned);
    return;
  }
  if (stage_ != Stage::kWait) return;
  // One that was to be repeated; those between turns have ended before.
  Fail({.ok = false, .status = "UNFINISHED"});
}

bool Conversation::CountsGaps() const {
  return request_.behaviour == Behaviour::kNormal &&
         environment_.recorder->Measured(request_.intended);
}

void Conversation::OnTokens(int64_t count) {
  const Nanos now = Now();
  Recorder& recorder = *environment_.recorder;
  recorder.Tokens(now, count);
  if (request_.tokens == 0) {
    request_.first_token = now;
    if (CountsGaps()) recorder.Gap(0, count - 1);
  } else if (CountsGaps()) {
    recorder.Gap(now - request_.last_token, count);
  }
  request_.last_token = now;
  request_.tokens += count;
  if (cancel_after_ > 0 && request_.tokens >= cancel_after_) Cancel(CancelReason::kPlanned);
}

void Conversation::OnJoinedTokens(int64_t count) {
  environment_.recorder->Tokens(Now(), count);
  if (CountsGaps()) environment_.recorder->Gap(0, count);
  request_.tokens += count;
}

void Conversation::OnReply(const Reply& reply) {
  call_ = nullptr;
  if (reply.reconnected) environment_.recorder->Reconnected(request_.intended);
  switch (stage_) {
    case Stage::kCreate:
      return Created(reply);
    case Stage::kGenerate:
      return Generated(reply);
    case Stage::kDelete:
      return Deleted(reply);
    case Stage::kIdle:
    case Stage::kWait:
    case Stage::kWaitToDelete:
      break;
  }
}

std::string Conversation::Status(const Reply& reply) const {
  if (cancel_reason_ == CancelReason::kTimeout) return "TIMEOUT";
  if (cancel_reason_ == CancelReason::kAbandoned) return "UNFINISHED";
  return reply.status;
}

void Conversation::Created(const Reply& reply) {
  if (!reply.ok) {
    request_.attempts = 1;
    environment_.recorder->Refused(request_.intended, Status(reply), reply.message,
                                   Now() - call_sent_, reply.retry_after.has_value());
    retry_after_ = reply.retry_after;
    request_.status = Status(reply);
    return EndRequest(RequestRecord::Result::kFailed);
  }
  environment_.recorder->Operation(request_.intended, "create session", Now() - call_sent_);
  session_id_ = spec_.session_id = reply.session_id;
  if (abandoned_) return Fail({.ok = false, .status = "UNFINISHED"});
  Send();
}

void Conversation::Deleted(const Reply& reply) {
  const Nanos now = Now();
  const std::string status = Status(reply);
  if (reply.ok) {
    environment_.recorder->Operation(request_.intended, "delete session", now - finished_at_);
  } else if (deletions_ < kMaxDeletions && !IsNotFound(status) && status != "TIMEOUT") {
    stage_ = Stage::kWaitToDelete;
    return hooks_.wake_at(id_, now + kPauseBeforeDeletion);
  } else {
    environment_.recorder->Refused(request_.intended, "DELETE " + status, reply.message,
                                   now - call_sent_, reply.retry_after.has_value());
  }
  stage_ = Stage::kIdle;
  hooks_.ended(id_);
}

void Conversation::Generated(const Reply& reply) {
  request_.prompt_tokens = reply.prompt_tokens;
  request_.cached_tokens = reply.cached_tokens;
  if (cancel_reason_ == CancelReason::kPlanned) {
    environment_.recorder->Cancelled(request_.intended, Now() - cancelled_at_);
    return EndRequest(RequestRecord::Result::kCancelled);
  }
  if (reply.ok) return EndRequest(RequestRecord::Result::kOk);
  const Nanos now = Now();
  environment_.recorder->Refused(request_.intended, Status(reply), reply.message, now - call_sent_,
                                 reply.retry_after.has_value());
  retry_after_ = reply.retry_after;
  if (reply.retry_after && request_.tokens == 0 &&
      request_.attempts <= environment_.workload->retries && !environment_.stopping &&
      !abandoned_) {
    stage_ = Stage::kWait;
    return hooks_.wake_at(id_, now + *reply.retry_after);
  }
  Fail(reply);
}

void Conversation::Fail(const Reply& reply) {
  request_.status = Status(reply);
  EndRequest(RequestRecord::Result::kFailed);
}

void Conversation::EndRequest(RequestRecord::Result result) {
  request_.result = result;
  request_.end = Now();
  environment_.recorder->Ended(request_);
  --turns_left_;
  if (turns_left_ <= 0 || result != RequestRecord::Result::kOk || environment_.stopping ||
      abandoned_) {
    return Finish();
  }
  const auto pause = static_cast<Nanos>(random_.Exponential() *
                                        static_cast<double>(environment_.workload->think_time));
  const Nanos due = request_.end + pause;
  environment_.recorder->Arrived(due);
  BeginRequest(due);
  stage_ = Stage::kWait;
  hooks_.wake_at(id_, due);
}

void Conversation::Finish() {
  if (session_id_.empty()) {
    stage_ = Stage::kIdle;
    return hooks_.ended(id_);
  }
  finished_at_ = Now();
  Delete();
}

void Conversation::Delete() {
  stage_ = Stage::kDelete;
  cancel_reason_ = CancelReason::kNone;
  call_sent_ = Now();
  ++deletions_;
  call_ = environment_.transport->DeleteSession(session_id_, this);
}

}  // namespace tvq::loadtest
