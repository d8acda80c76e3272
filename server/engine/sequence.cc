#include "server/engine/sequence.h"

#include <algorithm>
#include <utility>

namespace tvq {

Sequence::Sequence(const Submission& submission, std::optional<int32_t> eos, int32_t index,
                   HeldState held)
    : submission_(&submission),
      eos_(eos),
      index_(index),
      held_(std::move(held)),
      text_(*submission.text),
      counts_(submission.counts) {}

SampleRow Sequence::NextSample(int64_t logits_row) const {
  const SamplingParams& p = params();
  SampleRow row;
  row.logits_row = logits_row;
  row.temperature = p.temperature;
  row.top_k = std::max(p.top_k, 0);
  row.top_p = p.top_p;
  row.min_p = p.min_p;
  row.repetition_penalty = p.repetition_penalty;
  row.presence_penalty = p.presence_penalty;
  row.frequency_penalty = p.frequency_penalty;
  row.counts = counts_.counts();
  row.logit_bias = p.logit_bias;
  row.allowed_ids = p.allowed_token_ids;
  if (generated_ < p.min_tokens) row.banned_ids = submission_->end_ids;
  row.seed = *p.seed;
  row.sample_index = static_cast<uint64_t>(index_);
  row.position = static_cast<uint64_t>(state()->position());
  row.top_logprobs = p.logprobs.value_or(-1);
  return row;
}

bool Sequence::Ends(int32_t id) const {
  const SamplingParams& p = params();
  return (id == eos_ && !p.ignore_eos) ||
         std::binary_search(p.stop_token_ids.begin(), p.stop_token_ids.end(), id);
}

Delta Sequence::End(int32_t id) {
  finished_ = true;
  pending_.reset();
  const bool shown = params().include_stop_str_in_output && id != eos_;
  StreamPiece last = shown ? text_.Push(id, false) : StreamPiece{};
  last.text += text_.Finish(false).text;
  return {.index = index_,
          .text = std::move(last.text),
          .finish = FinishReason::kStop,
          .stop_token = id};
}

Delta Sequence::Accept(TokenEvent event) {
  const SamplingParams& p = params();
  const int32_t id = event.token.id;
  if (Ends(id)) return End(id);

  pending_ = id;
  ++generated_;
  if (submission_->request.keep) tokens_.push_back(id);
  if (UsesCounts(p)) counts_.AddOutput(id);
  const bool armed = generated_ > p.min_tokens;
  StreamPiece piece = text_.Push(id, armed);
  const bool full = generated_ == p.max_tokens;
  if (full && !piece.stop) {
    StreamPiece rest = text_.Finish(armed);
    piece.text += rest.text;
    piece.stop = std::move(rest.stop);
  }
  Delta delta{.index = index_, .text = std::move(piece.text)};
  delta.tokens.push_back(std::move(event));
  if (piece.stop) delta.finish = FinishReason::kStop;
  if (full && !piece.stop) delta.finish = FinishReason::kLength;
  delta.stop_string = std::move(piece.stop);
  finished_ = delta.finish != FinishReason::kNone;
  return delta;
}

}  // namespace tvq
