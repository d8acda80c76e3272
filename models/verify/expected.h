// Expected log-probabilities or vectors of a model, computed by another implementation.
//
// A safetensors file that holds, per sequence NAME, `NAME.tokens` int32 [T] and one or more of
//   NAME.logprobs         float32 [T, vocab]   row i = log p(next | tokens 0..i)
//   NAME.target_logprobs  float32 [T-1]        entry i = log p(token i+1 | tokens 0..i)
//   NAME.last_logprobs    float32 [R, vocab]   the last R rows
// For an encoder it holds NAME.vectors float32 [T, width] instead, one vector for each position.
// A greedy continuation has `NAME.prompt_tokens` [P], `NAME.tokens` [T] and `NAME.logprobs` [T].
// If keys are quantized there may also be
//   NAME.codes            int32 [T, heads]     the code of every position's key.
//                         The shape is [P + T, heads] for a continuation. Columns are ordered by
//                         layer, then in a converted model by ring, shorter rings first, then by
//                         head.
#ifndef TVQ_MODELS_VERIFY_EXPECTED_H_
#define TVQ_MODELS_VERIFY_EXPECTED_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace tvq::verify {

struct ExpectedSequence {
  std::string name;
  std::vector<int32_t> tokens;
  std::vector<float> rows;  // [row_count, row_width]: of the last row_count positions
  int64_t row_count = 0;
  int64_t row_width = 0;       // vocab, or the vectors' width
  bool encoded = false;        // rows are vectors; of the fields below only codes may be set
  std::vector<float> targets;  // [T-1] or empty

  std::vector<int32_t> codes;  // [length(), heads], or empty

  bool greedy = false;
  std::vector<int32_t> prompt;        // greedy only
  std::vector<float> token_logprobs;  // greedy only, [T]

  // How many positions are fed.
  size_t length() const { return prompt.size() + tokens.size(); }
};

// INVALID_ARGUMENT naming file and tensor when a tensor is missing or misshapen.
absl::StatusOr<std::vector<ExpectedSequence>> ReadExpected(const std::string& path, int64_t vocab);

}  // namespace tvq::verify

#endif  // TVQ_MODELS_VERIFY_EXPECTED_H_
