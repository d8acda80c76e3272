// Runs a model over expected sequences and measures how far its log-probabilities are.
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

// The codes a run assigned, in the order of layers and tokens; see QuantizedKeys.
using Codes = std::vector<int32_t>;

struct Comparison {
  double max_difference = 0;  // over all log-probabilities compared
  double sum_squares = 0;     // of the differences, for the root mean square
  int64_t compared = 0;
  int64_t greedy_mismatches = 0;  // tokens of a greedy continuation that differ
  double target_bits = 0;  // sum of -log2 p(next token) over `target_count` tokens of the sequence
  int64_t target_count = 0;
  double expected_bits = 0;  // the same, as expected
  Codes codes;               // none where keys are not quantized
  int64_t other_codes = 0;   // of them, that were replaced by others
};

// Feeds the sequence from an empty state: in prefill chunks, or token by token. `forced`, when
// given, replaces the codes of the keys by those of an earlier run of the same mode; else those
// that are expected do, where there are any. INVALID_ARGUMENT when the model has other heads.
absl::StatusOr<Comparison> Compare(Model& model, const ExpectedSequence& expected, Mode mode,
                                   const Codes* forced = nullptr);

}  // namespace tvq::verify

#endif  // TVQ_MODELS_VERIFY_COMPARE_H_
