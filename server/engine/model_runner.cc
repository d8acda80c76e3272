#include "server/engine/model_runner.h"

#include <algorithm>
#include <utility>

namespace tvq {

absl::StatusOr<ModelRunner> ModelRunner::Create(std::shared_ptr<Model> model,
                                                int64_t max_sequences) {
  auto logits = model->NewLogits(max_sequences);
  if (!logits.ok()) return logits.status();
  return ModelRunner(std::move(model), *std::move(logits));
}

ModelRunner::ModelRunner(std::shared_ptr<Model> model, Logits logits)
    : model_(std::move(model)), logits_(std::move(logits)) {}

void ModelRunner::Run(const StepPlan& plan, std::span<const std::unique_ptr<ActiveRequest>> running,
                      EngineStats& totals) {
  next_row_ = 0;
  draws_.clear();
  rows_.clear();
  std::vector<ActiveRequest*> decoding;
  for (size_t i : plan.decode) decoding.push_back(running[i].get());
  std::vector<Feed> feeds;
  for (const PrefillAdvance& a : plan.prefill)
    feeds.push_back({running[a.request].get(), a.tokens});
  Decode(decoding);
  Prefill(std::move(feeds), totals);
  SampleAndDeliver(totals);
}

// In rounds, for a state may occur once in a call.
void ModelRunner::Prefill(std::vector<Feed> feeds, EngineStats& totals) {
  const int64_t chunk_size = model_->info().config.prefill_chunk;
  while (!feeds.empty()) {
    std::vector<Feed*> together;
    for (Feed& f : feeds) {
      PromptRun& prompt = *f.request->prompt();
      f.length = NextChunk(prompt.state()->position(), f.tokens, chunk_size);
      f.tokens -= f.length;
      const bool wants_logits =
          f.length == prompt.remaining() && f.request->request().purpose == Purpose::kGenerate;
      f.logits_row = wants_logits ? next_row_++ : -1;
      // Logits that are not finite fail a scoring call, so it must not hold a neighbour.
      Feed* const alone[] = {&f};
      if (prompt.scores()) {
        FeedChunks(alone, totals);
      } else {
        together.push_back(&f);
      }
    }
    if (!together.empty()) FeedChunks(together, totals);
    std::erase_if(feeds, [](const Feed& f) { return f.tokens == 0 || f.request->done(); });
  }
}

void ModelRunner::FeedChunks(std::span<Feed* const> feeds, EngineStats& totals) {
  std::vector<PrefillChunk> chunks;
  for (const Feed* f : feeds) {
    chunks.push_back(f->request->prompt()->Chunk(f->length, f->logits_row));
  }
  const absl::Status status = model_->Prefill(chunks, &logits_);
  for (const Feed* f : feeds) {
    if (!status.ok()) {
      f->request->End(status);
      continue;
    }
    totals.prefill_tokens_computed += f->length;
    f->request->OnFed(f->length);
    for (Sequence& s : f->request->sequences()) AddDraw(f->request, s, f->logits_row);
  }
}

void ModelRunner::Decode(std::span<ActiveRequest* const> requests) {
  if (requests.empty()) return;
  std::vector<DecodeRow> rows;
  for (ActiveRequest* request : requests) {
    for (Sequence& s : request->sequences()) {
      if (!s.finished()) rows.push_back({s.state(), s.pending(), next_row_++});
    }
  }
  const absl::Status status = model_->Decode(rows, &logits_);
  auto row = rows.begin();
  for (ActiveRequest* request : requests) {
    if (!status.ok()) {
      request->End(status);
      continue;
    }
    for (Sequence& s : request->sequences()) {
      if (!s.finished()) AddDraw(request, s, (row++)->logits_row);
    }
  }
}

void ModelRunner::AddDraw(ActiveRequest* request, Sequence& sequence, int64_t logits_row) {
  draws_.push_back({request, &sequence});
  rows_.push_back(sequence.NextSample(logits_row));
}

void ModelRunner::SampleAndDeliver(EngineStats& totals) {
  if (rows_.empty()) return;
  int64_t max_top = 0;
  for (const SampleRow& row : rows_) max_top = std::max(max_top, row.top_logprobs);
  std::vector<TokenLogprob> chosen(rows_.size());
  std::vector<TokenLogprob> top(rows_.size() * static_cast<size_t>(max_top));
  std::vector<absl::Status> row_status(rows_.size());
  const absl::Status status = model_->Sample(logits_, rows_, max_top, chosen, top, row_status);
  for (size_t i = 0; i < rows_.size(); ++i) {
    ActiveRequest& request = *draws_[i].request;
    if (request.done()) continue;  // another of its samples failed
    if (!status.ok() || !row_status[i].ok()) {
      request.End(status.ok() ? row_status[i] : status);
      continue;
    }
    TokenEvent event{.token = {.id = chosen[i].id}};
    if (rows_[i].top_logprobs >= 0) {
      const auto first = top.begin() + static_cast<std::ptrdiff_t>(i) * max_top;
      event = {chosen[i], {first, first + rows_[i].top_logprobs}};
    }
    const int64_t before = request.usage().completion_tokens;
    request.OnSampled(*draws_[i].sequence, std::move(event));
    totals.generation_tokens += request.usage().completion_tokens - before;
  }
}

}  // namespace tvq
