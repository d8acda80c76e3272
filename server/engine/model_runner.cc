#include "server/engine/model_runner.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace tvq {

absl::StatusOr<ModelRunner> ModelRunner::Create(std::shared_ptr<Model> model,
                                                const EngineOptions& options,
                                                std::shared_ptr<GrammarThreads> grammar_threads) {
  auto logits = model->NewLogits(options.max_num_seqs + DraftRows(*model));
  if (!logits.ok()) return logits.status();
  return ModelRunner(std::move(model), *std::move(logits), options.grammar_wait,
                     std::move(grammar_threads));
}

ModelRunner::ModelRunner(std::shared_ptr<Model> model, Logits logits,
                         std::chrono::milliseconds grammar_wait,
                         std::shared_ptr<GrammarThreads> grammar_threads)
    : model_(std::move(model)),
      logits_(std::move(logits)),
      grammar_wait_(grammar_wait),
      grammar_threads_(std::move(grammar_threads)) {}

void ModelRunner::Run(const Step& step, int64_t stream_interval, EngineStats& totals,
                      const std::function<void(std::span<const Turn>)>& on_part) {
  // No token waits for the prompt of another request: decoded tokens are delivered before any
  // prompt is computed, and each prompt's first token before the next prompt.
  const auto end_part = [&](std::span<const Turn> part) {
    SampleAndDeliver(stream_interval, totals);
    on_part(part);
  };
  if (!step.decode.empty()) {
    Decode(step, totals);
    end_part(step.decode);
  }
  for (const Turn& turn : step.prefill) {
    Prefill(*turn.request, turn.count, totals);
    end_part({&turn, 1});
  }
}

void ModelRunner::Prefill(ActiveRequest& request, int64_t tokens, EngineStats& totals) {
  if (request.request().purpose == Purpose::kEncode) return Encode(request, tokens);
  PromptRun& prompt = *request.prompt();
  if (prompt.needs_first()) {
    if (auto status = ScoreFirst(request.request(), prompt); !status.ok()) {
      return request.End(status);
    }
  }
  const int64_t chunk_size = model_->info().config.prefill_chunk;
  while (tokens > 0 && !request.done()) {
    const int64_t length = NextChunk(prompt.state()->position(), tokens, chunk_size);
    tokens -= length;
    FeedChunk(request, length, totals);
  }
}

void ModelRunner::Encode(ActiveRequest& request, int64_t rows) {
  const absl::Status status = model_->encoder()->Advance(*request.prompt()->state(), rows);
  status.ok() ? request.OnFed(rows) : request.End(status);
}

void ModelRunner::FeedChunk(ActiveRequest& request, int64_t length, EngineStats& totals) {
  PromptRun& prompt = *request.prompt();
  const bool wants_logits = Samples(request.request()) || request.KeepsLogitsOfPrompt();
  const bool last = length == prompt.remaining();
  const int64_t logits_row = wants_logits && last ? next_row_++ : -1;
  const PrefillChunk chunk = prompt.Chunk(length, logits_row);
  if (auto status = model_->Prefill(chunk, &logits_); !status.ok()) {
    return request.End(status);
  }
  totals.prefill_tokens_computed += length;
  const bool keeps = logits_row >= 0 && request.KeepsLogitsOfPrompt();
  if (keeps && !KeepLogits(request, logits_row)) return;
  request.OnFed(length);
  for (Sequence& s : request.sequences()) AddDraw({&request, &s}, logits_row);
}

// A row that is free: the request itself has not taken its own yet.
absl::Status ModelRunner::ScoreFirst(const Request& request, PromptRun& prompt) {
  if (auto s = model_->WriteLogits(*request.start->logits, &logits_, next_row_); !s.ok()) return s;
  // Nothing else may be chosen, so the choice says what the logits are to the token.
  const int32_t only[] = {request.prompt.front()};
  const int64_t top = request.sampling.prompt_logprobs.value_or(0);
  const SampleRow row{
      .logits_row = next_row_, .temperature = 0, .allowed_ids = only, .top_logprobs = top};
  TokenEvent event{.token = {}, .top = std::vector<TokenLogprob>(static_cast<size_t>(top))};
  absl::Status row_status;
  const absl::Status status =
      model_->Sample(logits_, {&row, 1}, top, {&event.token, 1}, event.top, {&row_status, 1});
  if (!status.ok()) return status;
  if (row_status.ok()) prompt.SetFirst(std::move(event));
  return row_status;
}

void ModelRunner::SampleFromStart(ActiveRequest& request, std::span<Sequence* const> sequences) {
  const int64_t row = next_row_++;
  if (auto status = model_->WriteLogits(request.start_logits(), &logits_, row); !status.ok()) {
    return request.End(status);
  }
  for (Sequence* s : sequences) AddDraw({&request, s}, row);
}

void ModelRunner::Decode(const Step& step, EngineStats& totals) {
  std::vector<Draw> pending, parked;
  std::vector<Sequence*> first, fed;
  for (const auto& [request, rows] : step.decode) {
    if (PromptRun* const prompt = request->prompt()) {  // one token to score, nothing to feed
      const absl::Status status = ScoreFirst(request->request(), *prompt);
      status.ok() ? request->OnFed(0) : request->End(status);
      continue;
    }
    first.clear();
    fed.clear();
    for (Sequence* s : request->NextSequences(rows)) {
      if (!s->parked().empty()) {
        parked.push_back({request, s});
      } else {
        (s->pending() ? fed : first).push_back(s);
      }
    }
    if (!first.empty()) SampleFromStart(*request, first);
    if (request->done()) continue;
    for (Sequence* s : fed) pending.push_back({request, s});
  }
  if (!pending.empty()) FeedPending(pending, step.draft_rows, totals);
  TakeUp(parked, /*may_wait=*/step.prefill.empty());
}

void ModelRunner::FeedPending(std::span<const Draw> sequences, int64_t draft_rows,
                              EngineStats& totals) {
  std::vector<Draw> draws;
  std::vector<DecodeRow> rows;
  auto waiting = std::ssize(sequences);
  int64_t drafted = 0;
  for (const Draw& draw : sequences) {
    Sequence& s = *draw.sequence;
    rows.push_back({s.state(), *s.pending(), next_row_++});
    draws.push_back(draw);
    // Each an equal share of what those before it left.
    const int64_t share = (draft_rows - drafted + waiting - 1) / waiting;
    --waiting;
    for (const int32_t id : s.Draft(share)) {
      rows.push_back({s.state(), id, next_row_++});
      draws.push_back({draw.request, &s, draws.back().right + 1});
      ++drafted;
    }
  }
  const absl::Status status = model_->Decode(rows, &logits_);
  if (status.ok()) totals.draft_tokens += drafted;
  for (size_t i = 0; i < rows.size(); ++i) {
    if (status.ok()) {
      AddDraw(draws[i], rows[i].logits_row);
    } else {
      draws[i].request->End(status);
    }
  }
}

void ModelRunner::ForgetDraws(bool (*which)(const Draw&)) {
  size_t kept = 0;
  for (size_t i = 0; i < draws_.size(); ++i) {
    if (which(draws_[i])) continue;
    draws_[kept] = draws_[i];
    rows_[kept++] = rows_[i];
  }
  draws_.erase(draws_.begin() + static_cast<std::ptrdiff_t>(kept), draws_.end());
  rows_.erase(rows_.begin() + static_cast<std::ptrdiff_t>(kept), rows_.end());
}

bool ModelRunner::KeepLogits(ActiveRequest& request, int64_t row) {
  std::vector<float> logits(static_cast<size_t>(model_->info().config.vocab_size));
  if (auto status = model_->ReadLogits(logits_, row, logits); !status.ok()) {
    request.End(status);
  } else {
    request.KeepLogits(std::move(logits));
  }
  return !request.done();
}

void ModelRunner::AddDraw(const Draw& draw, int64_t logits_row) {
  draw.sequence->FindAllowed(grammar_threads_);
  draws_.push_back(draw);
  rows_.push_back(draw.sequence->NextSample(logits_row, draw.right));
}

void ModelRunner::AwaitAllowed() {
  const auto has_grammar = [](const Draw& d) {
    return d.request->request().sampling.grammar != nullptr;
  };
  if (std::ranges::none_of(draws_, has_grammar)) return;
  const SteadyTime until = std::chrono::steady_clock::now() + grammar_wait_;
  for (size_t i = 0; i < draws_.size(); ++i) {
    ActiveRequest& request = *draws_[i].request;
    if (request.done()) continue;  // and its sequences are gone
    Sequence& sequence = *draws_[i].sequence;
    const absl::StatusOr<bool> known = sequence.AwaitAllowed(until, &rows_[i]);
    if (!known.ok()) {
      request.End(known.status());
    } else if (!*known) {
      Park(draws_[i], rows_[i]);
    }
  }
  ForgetDraws([](const Draw& d) { return d.request->done() || !d.sequence->parked().empty(); });
}

void ModelRunner::Park(const Draw& draw, SampleRow& row) {
  std::vector<float> logits(static_cast<size_t>(model_->info().config.vocab_size));
  const absl::Status status = model_->ReadLogits(logits_, row.logits_row, logits);
  if (!status.ok()) return draw.request->End(status);
  // A device that computes on its own has ended only now.
  const auto known = draw.sequence->AwaitAllowed(std::chrono::steady_clock::now(), &row);
  if (!known.ok()) return draw.request->End(known.status());
  if (!*known) draw.sequence->Park(std::move(logits));
}

void ModelRunner::TakeUp(std::span<const Draw> parked, bool may_wait) {
  const SteadyTime now = std::chrono::steady_clock::now();
  for (const Draw& draw : parked) {
    if (draw.request->done()) continue;
    SampleRow unused;
    const bool wait = may_wait && draws_.empty();
    const auto known = draw.sequence->AwaitAllowed(wait ? now + grammar_wait_ : now, &unused);
    if (known.ok() && !*known) continue;
    const int64_t row = next_row_++;
    const absl::Status status =
        known.ok() ? model_->WriteLogits(draw.sequence->TakeParked(), &logits_, row)
                   : known.status();
    status.ok() ? AddDraw(draw, row) : draw.request->End(status);
  }
}

void ModelRunner::SampleAndDeliver(int64_t stream_interval, EngineStats& totals) {
  next_row_ = 0;
  // Where a call failed, other samples of its request may have been to be drawn.
  ForgetDraws([](const Draw& d) { return d.request->done(); });
  AwaitAllowed();
  if (rows_.empty()) return;
  int64_t max_top = 0;
  for (const SampleRow& row : rows_) max_top = std::max(max_top, row.top_logprobs);
  std::vector<TokenLogprob> chosen(rows_.size());
  std::vector<TokenLogprob> top(rows_.size() * static_cast<size_t>(max_top));
  std::vector<absl::Status> row_status(rows_.size());
  const absl::Status status = model_->Sample(logits_, rows_, max_top, chosen, top, row_status);
  const SteadyTime now = std::chrono::steady_clock::now();
  for (size_t i = 0; i < rows_.size(); ++i) {
    ActiveRequest& request = *draws_[i].request;
    if (request.done()) continue;  // another of its samples failed
    // The text went another way than the draft, or ended.
    const Sequence& sequence = *draws_[i].sequence;
    if (sequence.finished() || sequence.right() != draws_[i].right) continue;
    if (!status.ok() || !row_status[i].ok()) {
      request.End(status.ok() ? row_status[i] : status);
      continue;
    }
    TokenEvent event{.token = {.id = chosen[i].id}};
    if (rows_[i].top_logprobs >= 0) {
      const auto first = top.begin() + static_cast<std::ptrdiff_t>(i) * max_top;
      event = {chosen[i], {first, first + rows_[i].top_logprobs}};
    }
    Deliver(draws_[i], std::move(event), rows_[i].logits_row, stream_interval, now, totals);
  }
  for (const Draw& draw : draws_) draw.request->request().sink->OnDelivered();
  draws_.clear();
  rows_.clear();
}

void ModelRunner::Deliver(const Draw& draw, TokenEvent event, int64_t logits_row,
                          int64_t stream_interval, SteadyTime now, EngineStats& totals) {
  ActiveRequest& request = *draw.request;
  Sequence& sequence = *draw.sequence;
  if (!sequence.Ends(event.token.id)) {
    CountToken(request, sequence, now, totals);
  } else if (request.request().keep && !KeepLogits(request, logits_row)) {
    return;
  }
  request.OnSampled(sequence, std::move(event), stream_interval);
  if (request.done() || sequence.finished()) return;
  sequence.FindAllowed(grammar_threads_);
  if (sequence.right() > draw.right) {
    ++totals.draft_tokens_accepted;
  } else if (auto taken_back = sequence.TakeBackDraft(*model_); !taken_back.ok()) {
    request.End(taken_back);
  }
}

void ModelRunner::CountToken(const ActiveRequest& request, Sequence& sequence, SteadyTime now,
                             EngineStats& totals) {
  ++totals.generation_tokens;
  if (request.usage().completion_tokens == 0) {
    totals.time_to_first_token.Add(Seconds(now - request.submitted()));
  }
  if (const auto last = sequence.NoteToken(now)) {
    totals.inter_token_latency.Add(Seconds(now - *last));
  }
}

}  // namespace tvq
