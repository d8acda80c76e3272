#include "server/engine/sequence/active_request.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/refusal.h"
#include "base/utf8.h"

namespace tvq {

ActiveRequest::ActiveRequest(Submission submission, Model& model, StateBudget& budget,
                             ByteBudget& draft_memory)
    : submission_(std::move(submission)),
      model_(&model),
      budget_(&budget),
      draft_memory_(&draft_memory),
      uncomputed_(submission_.charge.tokens) {
  usage_.prompt_tokens = static_cast<int64_t>(request().prompt.size());
}

absl::StatusOr<HeldState> ActiveRequest::NewState() {
  auto state = model_->NewState();
  if (!state.ok()) return state.status();
  const Need& all = submission_.need;
  return HeldState{submission_.share.Split(all.state_bytes / all.sequences), *std::move(state)};
}

void ActiveRequest::Start(StateSource::Done filled) {
  auto blank = NewState();
  if (!blank.ok()) return End(blank.status());
  if (!request().start || !request().start->source) return Begin(*std::move(blank));
  filling_ = true;
  request().start->source->Fill(*std::move(blank), std::move(filled));
}

void ActiveRequest::OnFilled(absl::StatusOr<HeldState> filled) {
  filling_ = false;
  submission_.request.start->source.reset();  // what it holds is free while the request computes
  if (!filled.ok()) return End(filled.status());
  StartPoint& start = *submission_.request.start;
  const int64_t position = filled->state->position();
  if (position < start.prompt_tokens) start.position = start.prompt_tokens = position;
  if (position != start.position) {
    return End(absl::InternalError(absl::StrCat("the state to start from holds ", position,
                                                " tokens, must hold ", start.position)));
  }
  Begin(*std::move(filled));
}

void ActiveRequest::Begin(HeldState held) {
  started_ = true;
  if (request().start) usage_.cached_tokens = request().start->prompt_tokens;
  int64_t encoder_rows = 0;
  if (request().purpose == Purpose::kEncode) {
    Encoder& encoder = *model_->encoder();
    if (auto s = encoder.Begin(*held.state, request().prompt); !s.ok()) return End(s);
    encoder_rows = encoder.Rows(usage_.prompt_tokens);
  }
  prompt_.emplace(request(), std::move(held), encoder_rows);
  request().sink->OnStart();
  if (echoes()) return SendEcho();
  BeginPrompt();
}

void ActiveRequest::SendEcho() {
  std::string& text = submission_.echo;
  RequestSink& sink = *request().sink;
  while (echo_index_ < request().sampling.n && sink.WantsMore()) {
    const std::string_view rest = std::string_view(text).substr(echo_begin_);
    const std::string_view piece = Utf8Beginning(rest, kEchoPieceBytes);
    sink.OnDelta({.index = echo_index_, .text = std::string(piece)});
    echo_begin_ += piece.size();
    if (piece.size() < rest.size()) continue;
    ++echo_index_;
    echo_begin_ = 0;
  }
  const bool sent = echo_index_ == request().sampling.n;
  if (sent) std::string().swap(text);
  sink.OnDelivered();
  if (sent) BeginPrompt();
}

void ActiveRequest::BeginPrompt() {
  if (prompt_->remaining() > 0 || prompt_->needs_first()) return;
  // A single token to score, which nothing predicts; or everything was fed before.
  OnFed(0);
}

Work ActiveRequest::work() const {
  if (echoes()) return {};
  if (!prompt_) return {.decode_rows = Unfinished()};
  return {.position = prompt_->state()->position(),
          .prompt_remaining = prompt_->remaining(),
          .decode_rows = prompt_->needs_first() ? 1 : 0};
}

Need ActiveRequest::Reserved() const {
  if (done()) return {.state_bytes = LeftBytes()};
  const Need& all = submission_.need;
  if (filling_) return all;
  int64_t bytes = submission_.share.bytes() + (prompt_ ? prompt_->held().share.bytes() : 0);
  for (const Sequence& s : sequences_) bytes += s.held().share.bytes();
  return {.sequences = prompt_ ? all.sequences : Unfinished(),
          .state_bytes = bytes,
          .prompt_tokens = all.prompt_tokens};
}

int64_t ActiveRequest::LeftBytes() const {
  if (filling_) return submission_.need.state_bytes / submission_.need.sequences;
  return kept_ ? kept_->held.share.bytes() : 0;
}

int64_t ActiveRequest::StateBytes() const {
  int64_t bytes = prompt_ ? prompt_->held().OwnBytes() : 0;
  for (const Sequence& s : sequences_) {
    if (s.state() != nullptr) bytes += s.held().OwnBytes();
  }
  return bytes;
}

void ActiveRequest::OnFed(int64_t tokens) {
  int64_t first = 0;
  std::vector<TokenEvent> events = prompt_->Fed(tokens, first);
  if (!events.empty()) request().sink->OnPrompt(first, std::move(events));
  if (tokens > 0) OfferPrefix();
  // In proportion: an encoder's rows are not tokens.
  const int64_t left = prompt_->remaining();
  uncomputed_ = left == 0 ? 0 : uncomputed_ * left / (left + tokens);
  if (left == 0) OnPromptFed();
}

// A copy is worth having, not waiting for, nor keeping others waiting.
void ActiveRequest::OfferPrefix() {
  const std::vector<int64_t>& marks = request().prefix_marks;
  const int64_t fed = prompt_->prompt_fed();
  while (next_mark_ < marks.size() && marks[next_mark_] < fed) ++next_mark_;
  if (next_mark_ == marks.size() || marks[next_mark_] != fed || budget_->shortage()) return;
  prompt_->held().Seal(*budget_);
  auto share = budget_->TryReserve(prompt_->held().OwnBytes());
  if (!share) return;
  auto copy = model_->NewState();
  if (!copy.ok() || !(*copy)->CopyFrom(*prompt_->state()).ok()) return;
  request().prefixes->OnPrefix(fed, {*std::move(share), *std::move(copy)});
}

void ActiveRequest::OnPromptFed() {
  if (Samples(request())) {
    if (auto status = Split(); !status.ok()) End(status);
    return;
  }
  if (request().purpose == Purpose::kGenerate) EndWithoutTokens();
  if (request().purpose == Purpose::kEncode) return End(DeliverVectors());
  if (request().keep) Keep(prompt_->TakeHeld(), nullptr);
  End(absl::OkStatus());
}

// What is left of an echo is a character that the prompt has begun.
void ActiveRequest::EndWithoutTokens() {
  std::string text;
  if (request().sampling.echo) text = submission_.text->Finish(false).text;
  for (int32_t i = 0; i < request().sampling.n; ++i) {
    request().sink->OnDelta({.index = i, .text = text, .finish = FinishReason::kLength});
  }
}

absl::Status ActiveRequest::DeliverVectors() {
  Encoder& encoder = *model_->encoder();
  const int64_t rows = request().mean ? 1 : usage_.prompt_tokens;
  std::vector<float> vectors(static_cast<size_t>(rows * encoder.width()));
  absl::Status s = encoder.Read(*prompt_->state(), request().mean, vectors);
  if (!s.ok()) return s;
  if (!std::all_of(vectors.begin(), vectors.end(), [](float v) { return std::isfinite(v); })) {
    return Refused(Reason::kNotFinite, "the vectors are not finite");
  }
  request().sink->OnEncoded(std::move(vectors));
  return absl::OkStatus();
}

std::optional<HeldDrafter> ActiveRequest::NewDrafter() const {
  if (DraftRows(*model_) == 0) return std::nullopt;
  auto share = draft_memory_->TryReserve(PromptLookup::kMostBytes);
  if (!share) return std::nullopt;
  const Drafter* const first = sequences_.empty() ? nullptr : sequences_[0].drafter();
  std::optional<Drafter> drafter = first != nullptr ? *first : PromptDrafter(request());
  if (!drafter) return std::nullopt;
  return HeldDrafter{*std::move(share), *std::move(drafter)};
}

// The prompt was fed once; every sample goes on from a copy of its state.
absl::Status ActiveRequest::Split() {
  const int32_t n = request().sampling.n;
  sequences_.reserve(static_cast<size_t>(n));
  if (n > 1) prompt_->held().Seal(*budget_);
  sequences_.emplace_back(submission_, 0, prompt_->TakeHeld(), NewDrafter());
  prompt_.reset();
  for (int32_t i = 1; i < n; ++i) {
    auto copy = NewState();
    if (!copy.ok()) return copy.status();
    const State& state = *sequences_[0].state();
    if (auto status = copy->CopyFirst(state, state.position()); !status.ok()) return status;
    sequences_.emplace_back(submission_, i, *std::move(copy), NewDrafter());
  }
  return absl::OkStatus();
}

std::vector<Sequence*> ActiveRequest::NextSequences(int64_t count) {
  std::vector<Sequence*> next;
  for (size_t seen = 0; seen < sequences_.size() && std::ssize(next) < count; ++seen) {
    Sequence& sequence = sequences_[next_sequence_];
    next_sequence_ = (next_sequence_ + 1) % sequences_.size();
    if (!sequence.finished()) next.push_back(&sequence);
  }
  return next;
}

void ActiveRequest::OnSampled(Sequence& sequence, TokenEvent event, int64_t stream_interval) {
  usage_.completion_tokens += sequence.Accept(std::move(event));
  if (sequence.finished()) {
    if (auto status = sequence.TakeBackDraft(*model_); !status.ok()) return End(status);
    HeldState held = sequence.TakeHeld();
    if (request().keep) Keep(std::move(held), &sequence);
  }
  if (sequence.OutputIsDue(stream_interval)) request().sink->OnDelta(sequence.TakeOutput());
  if (Unfinished() == 0) End(absl::OkStatus());
}

bool ActiveRequest::KeepsLogitsOfPrompt() const { return request().keep && !Samples(request()); }

void ActiveRequest::KeepLogits(std::vector<float> logits) {
  if (std::all_of(logits.begin(), logits.end(), [](float l) { return std::isfinite(l); })) {
    last_logits_ = std::move(logits);
  } else {
    End(Refused(Reason::kNotFinite, "the logits after the last token are not finite"));
  }
}

void ActiveRequest::Keep(HeldState held, const Sequence* sequence) {
  Continuation& kept = kept_.emplace();
  held.share.Shrink(held.OwnBytes());
  kept.held = std::move(held);
  kept.tokens = request().prompt;
  if (sequence != nullptr) {
    kept.tokens.insert(kept.tokens.end(), sequence->tokens().begin(), sequence->tokens().end());
    if (sequence->pending()) kept.pending.push_back(*sequence->pending());
    const std::vector<int32_t>& tokens = sequence->tokens();
    const size_t last = tokens.empty() ? 0 : model_->tokenizer().TokenBytes(tokens.back()).size();
    kept.answer_end = AnswerEnd::Of(EndOf(tokens), last, sequence->stop());
  } else if (request().start && request().start->answer_end) {
    kept.answer_end = request().start->answer_end;
    kept.answer_end->Append(EndOf(request().prompt));
  }
  if (!kept.pending.empty()) return;
  kept.logits = std::move(last_logits_);
  if (sequence != nullptr && !sequence->parked().empty()) kept.logits = sequence->parked();
  // Nothing was fed: the logits are still those of the start.
  if (kept.logits.empty()) kept.logits = *request().start->logits;
}

std::string ActiveRequest::EndOf(std::span<const int32_t> tokens) const {
  const Tokenizer& tokenizer = model_->tokenizer();
  size_t first = tokens.size();
  for (size_t bytes = 0; first > 0 && bytes < AnswerEnd::kMaxTail;) {
    bytes += tokenizer.TokenBytes(tokens[--first]).size();
  }
  std::string text;
  for (int32_t id : tokens.subspan(first)) text += tokenizer.TokenBytes(id);
  return text;
}

void ActiveRequest::End(absl::Status outcome) {
  if (done()) return;
  for (Sequence& s : sequences_) {
    if (s.HasOutput()) request().sink->OnDelta(s.TakeOutput());
  }
  outcome_ = std::move(outcome);
  prompt_.reset();
  sequences_.clear();
  submission_.share.Reset();
}

void ActiveRequest::Cancel() {
  if (!done() && request().keep && request().keep_on_cancel && !sequences_.empty()) {
    Keep(sequences_[0].TakeHeld(), sequences_.data());
  }
  End(Refused(Reason::kCancelled, "the request was cancelled"));
}

int64_t ActiveRequest::Unfinished() const {
  return std::count_if(sequences_.begin(), sequences_.end(),
                       [](const Sequence& s) { return !s.finished(); });
}

}  // namespace tvq
