// How many bytes a decode step has to read, counted from the model's shape.
#ifndef TVQ_TESTS_BENCH_BYTE_MODEL_H_
#define TVQ_TESTS_BENCH_BYTE_MODEL_H_

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/device/tensor.h"
#include "tests/bench/subject.h"

namespace tvq::bench {

struct ByteLine {
  std::string op;  // that reads them, as profiles name it
  std::string what;
  // In the letters of docs/model-format.md; w and v are bytes per element (w of int4 is 9/16, and 1
  // of the embedding and the logits beside it), r the share of rows read.
  std::string formula;
  int64_t bytes = 0;
  bool per_session = false;  // otherwise once a step, however many sessions
};

// What decode reads of states, and the share of their rows that it does not leave out.
struct StateTraffic {
  DType dtype = DType::kFloat32;  // of recent values
  bool copy = false;              // in int8, read instead of the exact rows
  double rows_read = 1;
};

// Everything that cannot be in a cache since the step before. Activations, scores and logits are
// small, written and read within a step, and are not counted; nor are writes (one value row of the
// window and one accumulator row per layer and head).
std::vector<ByteLine> StepByteLines(const TransformerConfig& config, DType dtype,
                                    const StateTraffic& state);

int64_t StepBytes(const std::vector<ByteLine>& lines, int64_t batch);

// Those of one op.
int64_t OpBytes(const std::vector<ByteLine>& lines, const std::string& op, int64_t batch);

// Floating-point operations of a decode step (a multiply and an add are two), the projections and
// logits of them by matrix instructions where the weights' type has some.
struct StepFlops {
  int64_t matrix = 0, other = 0;
};
StepFlops DecodeFlops(const TransformerConfig& config, int64_t batch);

// Bytes of a session by the formula of the documentation, without alignment.
int64_t SessionBytes(const TransformerConfig& config, DType state_dtype, bool copy);

// Floating-point operations (a multiply and an add are two) of one prompt token far into a context:
// projections, code assignment, scores and values. Logits are computed once a prompt: not counted.
int64_t PrefillFlops(const TransformerConfig& config);

}  // namespace tvq::bench

#endif  // TVQ_TESTS_BENCH_BYTE_MODEL_H_
