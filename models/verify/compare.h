// Runs a model over expected sequences and measures how far its log-probabilities, or its vectors,
// are from the expected ones.
#ifndef TVQ_MODELS_VERIFY_COMPARE_H_
#define TVQ_MODELS_VERIFY_COMPARE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "models/runtime/model.h"
#include "models/verify/expected.h"

namespace tvq::verify {

enum class Mode { kPrefill, kStep };

inline const char* Name(Mode mode) { return mode == Mode::kPrefill ? "prefill" : "step"; }

// The codes that a run assigned, in the order in which QuantizedKeys::Tap shows them.
using Codes = std::vector<int32_t>;

struct Comparison {
  double max_difference = 0;  // over all log-probabilities compared
  double sum_squares = 0;     // of the differences, for the root mean square
  int64_t compared = 0;
  int64_t greedy_mismatches = 0;  // tokens of a greedy continuation that differ
  double target_bits = 0;  // sum of -log2 p(next token) over `target_count` tokens of the sequence
  int64_t target_count = 0;
  double expected_bits = 0;  // the same sum by the expected log-probabilities
  Codes codes;               // as the run assigned them; empty if keys are not quantized
  int64_t other_codes = 0;   // how many of them were replaced by a different code
};

// Feeds the sequence to an empty state, in prefill chunks or token by token. Replaces the codes of
// keys by `forced`, the codes of an earlier run of the same mode; if that is null, by the expected
// codes if there are any. INVALID_ARGUMENT if expected codes are not of as many heads as the
// model's.
absl::StatusOr<Comparison> Compare(Model& model, const ExpectedSequence& expected, Mode mode,
                                   const Codes* forced = nullptr);

}  // namespace tvq::verify

#endif  // TVQ_MODELS_VERIFY_COMPARE_H_
