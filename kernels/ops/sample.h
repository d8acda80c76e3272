// Chooses the next token of each row from its logits, with the names, order and semantics of vLLM:
//
//   logits -> allowed ids, mask, banned ids (min_tokens) -> logit_bias
//          -> repetition penalty: over prompt and output ids, l > 0 ? l / r : l * r
//          -> frequency and presence penalty: over output ids, l -= f * count + p * (count > 0)
//          -> temperature (below 1e-5: argmax, the lowest id on a tie)
//          -> min_p -> top_k -> top_p -> softmax -> draw
//
// min_p keeps ids with probability >= min_p * the largest; top_k keeps the k largest (all ties of
// the k-th). top_p keeps the smallest set of the largest whose probability, among what top_k left,
// reaches top_p; on a tie the lower id comes first, and at least one id is kept. Biases of one id
// add up. The draw walks the remaining ids upwards with a uniform number that is a function of
// (seed, sample_index, position) alone (ops/philox.h), so a request's tokens do not depend on its
// neighbours.
#ifndef TVQ_KERNELS_OPS_SAMPLE_H_
#define TVQ_KERNELS_OPS_SAMPLE_H_

#include <span>

#include "kernels/device/tensor.h"
#include "kernels/ops/ops.h"
#include "kernels/ops/token_logprobs.h"

namespace tvq {

struct TokenCount {
  int32_t id = 0;
  int32_t in_prompt = 0;  // occurrences in the prompt
  int32_t in_output = 0;  // occurrences among the generated tokens
};

struct LogitBias {
  int32_t id = 0;
  float bias = 0;
};

// The numbers of a sampler: X(type, name, default), by their names on the wire. All structs that
// have them, and what reads and copies them, are made of this list.
#define TVQ_SAMPLE_NUMBERS(X)                                     \
  X(float, temperature, 1) /* below kGreedyTemperature: greedy */ \
  X(int32_t, top_k, 0)     /* 0 or -1: off */                     \
  X(float, top_p, 1)                                              \
  X(float, min_p, 0)                                              \
  X(float, repetition_penalty, 1)                                 \
  X(float, presence_penalty, 0)                                   \
  X(float, frequency_penalty, 0)

#define TVQ_SAMPLE_MEMBER(type, name, value) type name = value;

// From one struct that has them to another.
template <typename From, typename To>
void CopySampleNumbers(const From& from, To* to) {
#define TVQ_SAMPLE_COPY(type, name, value) to->name = from.name;
  TVQ_SAMPLE_NUMBERS(TVQ_SAMPLE_COPY)
#undef TVQ_SAMPLE_COPY
}

// What to do with one row. Everything is checked by the caller against the service's limits.
struct SampleRow {
  int64_t logits_row = 0;
  TVQ_SAMPLE_NUMBERS(TVQ_SAMPLE_MEMBER)
  std::span<const TokenCount> counts;  // of distinct ids; needed when a penalty is on
  std::span<const LogitBias> logit_bias;
  std::span<const int32_t> allowed_ids;  // empty: all
  // Bit i % 32 of word i / 32: whether id i may be chosen. [MaskWords(vocab)], or empty: all.
  std::span<const uint32_t> mask;
  std::span<const int32_t> banned_ids;  // for example the end ids before min_tokens
  uint64_t seed = 0;
  uint64_t sample_index = 0;
  uint64_t position = 0;
  int64_t top_logprobs =
      -1;  // -1: no logprobs; 0: the chosen token's; n: also those of n alternatives
};

// Words of 32 ids.
constexpr int64_t MaskWords(int64_t vocab) { return (vocab + 31) / 32; }

// Whether a mask that is not empty has the id.
template <typename Words>
constexpr bool MaskHas(const Words& mask, int64_t id) {
  return (mask[static_cast<size_t>(id / 32)] >> (id % 32) & 1U) != 0;
}

// Below this temperature a row is greedy, as in vLLM.
inline constexpr float kGreedyTemperature = 1e-5F;

// Whether `counts` are needed, by numbers of a sampler.
template <typename Numbers>
bool HasPenalty(const Numbers& of) {
  return of.repetition_penalty != 1 || of.frequency_penalty != 0 || of.presence_penalty != 0;
}

struct SampleArgs {
  Matrix<const float> logits;       // [rows, vocab]
  std::span<const SampleRow> rows;  // [N]
  // [N] host; logprob and rank in the raw distribution, 0 where top_logprobs is -1.
  std::span<TokenLogprob> chosen;
  std::span<TokenLogprob> top;  // [N * max_top] host, row n at n * max_top
  int64_t max_top = 0;
  // [N]; INTERNAL where a row's logits are not finite, INVALID_ARGUMENT where no id may be chosen.
  std::span<absl::Status> row_status;
};

}  // namespace tvq

#endif  // TVQ_KERNELS_OPS_SAMPLE_H_
