// The mathematics of Transformer-VQ written down once more, naively: float64, quadratic attention
// over all earlier positions, no accumulator, no window, none of the engine's code.
#ifndef TVQ_TESTS_CONFORMANCE_ORACLE_H_
#define TVQ_TESTS_CONFORMANCE_ORACLE_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "kernels/tensor.h"
#include "models/runtime/weights.h"

namespace tvq::conformance {

// Shape of a model; `Json` is its config.json.
struct Shape {
  std::string name;
  int64_t vocab = 29, d_model = 16, d_k = 8, d_v = 12, n_code = 10, n_layer = 2;
  int64_t n_head = 1, n_kv_head = 1, block_len = 8, mem_len = 8, prefill_chunk = 64;
  bool pe_abs = false, tied = false, output_norm = false;
  double logit_scale = 1, pe_lam = 100000;

  std::string Json() const;
};

struct OracleRun {
  std::vector<std::vector<double>> logprobs;  // [T][vocab]
  std::vector<std::vector<int32_t>> codes;    // [layer][T * G]
  // How much farther than the best code, in squared distance, the code would be: [layer][T * G][S].
  std::vector<std::vector<std::vector<double>>> excess;
};

class Oracle {
 public:
  // The matrices (not the codebooks, biases and what positions are projected with) as a model of
  // `dtype` holds them.
  Oracle(Shape shape, WeightSource& weights, DType dtype);

  OracleRun Run(const std::vector<int32_t>& tokens) const;

 private:
  using Values = std::vector<double>;
  // One gated attention unit over all positions; adds its output to x.
  void Unit(int64_t layer, std::vector<Values>& x, OracleRun& run) const;
  Values Normed(const Values& x, const std::string& name) const;

  Shape shape_;
  std::map<std::string, Values> w_;
};

}  // namespace tvq::conformance

#endif  // TVQ_TESTS_CONFORMANCE_ORACLE_H_
