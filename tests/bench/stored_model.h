// Presets as model directories.
#ifndef TVQ_TESTS_BENCH_STORED_MODEL_H_
#define TVQ_TESTS_BENCH_STORED_MODEL_H_

#include <string>

#include "absl/status/status.h"
#include "models/runtime/host_tensor.h"
#include "tests/bench/subject.h"

namespace tvq::bench {

// Writes random weights of this shape as `dir`, which exists: config.json and model.safetensors
// with checksums, matrices as `stored` (F32 or BF16), all else as F32.
absl::Status StoreRandom(const TransformerConfig& config, HostDType stored, const std::string& dir);

}  // namespace tvq::bench

#endif  // TVQ_TESTS_BENCH_STORED_MODEL_H_
