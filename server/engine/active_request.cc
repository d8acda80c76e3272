#include "server/engine/active_request.h"

#include <algorithm>
#include <string>
#include <utility>

#include "models/runtime/tokenizer/utf8.h"

namespace tvq {

ActiveRequest::ActiveRequest(Submission submission, Model& model)
    : submission_(std::move(submission)), model_(&model) {
  usage_.prompt_tokens = static_cast<int64_t>(request().prompt.size());
}

void ActiveRequest::Start() {
  auto state = model_->NewState();
  if (!state.ok()) return End(state.status());
  prompt_.emplace(request(), *std::move(state));
  RequestSink& sink = *request().sink;
  sink.OnStart();
  if (!submission_.echo.empty()) {
    SendEcho(submission_.echo);
    submission_.echo.clear();
    submission_.echo.shrink_to_fit();
  }
  if (prompt_->remaining() == 0) {  // a single token to score
    sink.OnPrompt(0, {PromptRun::FirstToken()});
    End(absl::OkStatus());
  }
}

void ActiveRequest::SendEcho(std::string_view text) {
  for (int32_t i = 0; i < request().sampling.n; ++i) {
    for (std::string_view rest = text; !rest.empty();) {
      const std::string_view piece = Utf8Beginning(rest, kEchoPieceBytes);
      request().sink->OnDelta({.index = i, .text = std::string(piece)});
      rest.remove_prefix(piece.size());
    }
  }
}

RunningView ActiveRequest::View() const {
  RunningView view{.model = model(), .ready = request().sink->WantsMore()};
  if (prompt_) {
    view.position = prompt_->state()->position();
    view.prompt_remaining = prompt_->remaining();
  } else {
    view.decode_rows = Unfinished();
  }
  return view;
}

Need ActiveRequest::Reserved() const {
  if (done()) return {.sequences = 0, .state_bytes = 0};
  const Need& all = submission_.need;
  if (prompt_) return all;
  const int64_t left = Unfinished();
  return {.sequences = left, .state_bytes = all.state_bytes / all.sequences * left};
}

int64_t ActiveRequest::StateBytes() const {
  int64_t bytes = prompt_ ? prompt_->state()->bytes() : 0;
  for (const Sequence& s : sequences_) {
    if (s.state() != nullptr) bytes += s.state()->bytes();
  }
  return bytes;
}

void ActiveRequest::OnFed(int64_t tokens) {
  int64_t first = 0;
  std::vector<TokenEvent> events = prompt_->Fed(tokens, first);
  if (!events.empty()) request().sink->OnPrompt(first, std::move(events));
  if (prompt_->remaining() > 0) return;
  if (request().purpose != Purpose::kGenerate) return End(absl::OkStatus());
  if (auto status = Split(); !status.ok()) End(status);
}

// The prompt was fed once; every sample goes on from a copy of its state.
absl::Status ActiveRequest::Split() {
  const int32_t n = request().sampling.n;
  const auto eos = model_->info().config.eos_token_id;
  sequences_.reserve(static_cast<size_t>(n));
  sequences_.emplace_back(submission_, eos, 0, prompt_->TakeState());
  prompt_.reset();
  for (int32_t i = 1; i < n; ++i) {
    auto copy = model_->NewState();
    if (!copy.ok()) return copy.status();
    if (auto status = (*copy)->CopyFrom(*sequences_[0].state()); !status.ok()) return status;
    sequences_.emplace_back(submission_, eos, i, *std::move(copy));
  }
  return absl::OkStatus();
}

void ActiveRequest::OnSampled(Sequence& sequence, TokenEvent event) {
  Delta delta = sequence.Accept(std::move(event));
  usage_.completion_tokens += static_cast<int64_t>(delta.tokens.size());
  if (sequence.finished()) sequence.TakeState().reset();
  request().sink->OnDelta(std::move(delta));
  if (Unfinished() == 0) End(absl::OkStatus());
}

void ActiveRequest::End(absl::Status outcome) {
  if (done()) return;
  outcome_ = std::move(outcome);
  prompt_.reset();
  sequences_.clear();
}

int64_t ActiveRequest::Unfinished() const {
  return std::count_if(sequences_.begin(), sequences_.end(),
                       [](const Sequence& s) { return !s.finished(); });
}

}  // namespace tvq
