// The mathematics of the transformers written down once more, naively: float64, quadratic attention
// over all earlier positions, no accumulator, no window, no cache, none of the engine's code.
#ifndef TVQ_TESTS_CONFORMANCE_ORACLE_H_
#define TVQ_TESTS_CONFORMANCE_ORACLE_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "kernels/device/tensor.h"
#include "models/runtime/weights.h"

namespace tvq::conformance {

// Shape of a model; `Json` is its config.json.
struct Shape {
  std::string name;
  std::string kind = "transformer_vq";
  std::string block = "gated";
  std::string position_bias = "relative";
  int64_t vocab = 29, d_model = 16, d_k = 8, d_v = 12, n_code = 10, n_layer = 2;
  int64_t n_head = 1, n_kv_head = 1, block_len = 8, mem_len = 8, prefill_chunk = 64;
  bool pe_abs = false, tied = false, output_norm = false;
  double logit_scale = 1, pe_lam = 100000;
  int64_t d_ff = 20;  // of a standard block
  int64_t n_feature = 14;
  double sigma = 0.6;
  double rotary_part = 1;  // of a head, that positions turn
  bool llama3 = false;     // frequencies
  bool all_biases = false;
  // Of a converted model, else 0: rings of `ring` positions, of the last key/value head of the last
  // layer `wide`, and the context that it was trained with.
  int64_t ring = 0, wide = 0, trained = 0;
  bool growing = false;  // its first layer's first key/value head keeps all keys

  bool vq() const { return kind == "transformer_vq"; }
  bool linear() const { return kind == "linear_transformer"; }
  bool soft() const { return kind == "soft_codebook"; }
  bool performer() const { return kind == "performer"; }
  bool of_features() const { return linear() || soft() || performer(); }
  bool converted() const { return ring > 0; }
  bool grows() const {
    return kind == "softmax_transformer" || (rotary() && (growing || !converted()));
  }
  bool has_codes() const { return vq() || converted(); }
  // Key/value heads of all layers, where there are codes: those that have some.
  int64_t coded_heads() const { return n_layer * n_kv_head - (growing ? 1 : 0); }
  // Of families with rotary positions, which have the names of Hugging Face's directories.
  bool rotary() const { return kind == "llama" || kind == "qwen2" || kind == "qwen3"; }
  int64_t turned() const { return static_cast<int64_t>(static_cast<double>(d_k) * rotary_part); }
  bool biases() const { return all_biases || kind == "qwen2"; }
  bool output_bias() const { return all_biases; }
  bool mlp_biases() const { return all_biases && kind == "llama"; }
  bool head_norms() const { return kind == "qwen3"; }
  bool standard() const { return block == "standard"; }
  std::string Json() const;
};

struct OracleRun {
  std::vector<std::vector<double>> logprobs;  // [T][vocab]
  // Where keys are quantized:
  std::vector<std::vector<int32_t>> codes;  // [layer][T * G]
  // How much farther than the best code, in squared distance, the code would be: [layer][T * G][S].
  // Of a converted model a layer is a group of its heads.
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
  using Rows = std::vector<Values>;  // one for each position
  // What attention is given, heads side by side.
  struct Projected {
    Rows q, k, v;
  };
  // One layer over all positions.
  void Layer(int64_t layer, Rows& x, OracleRun& run) const;
  Projected Project(const std::string& prefix, const Rows& tilde) const;
  // Replaces keys by codewords.
  void Quantize(const std::string& prefix, Rows& keys, OracleRun& run) const;
  // R, [H * K] for each distance below `count`.
  Rows PositionKeys(const std::string& prefix, size_t count) const;
  // q [K] of head h with k [K], both of a layer, as far apart as `distance`.
  double Score(const std::string& prefix, int64_t h, const double* q, const double* k,
               size_t distance, const Rows& position_keys) const;
  // o, [H * V] for each position.
  Rows SoftmaxAttention(const std::string& prefix, const Projected& in) const;
  Rows FeatureAttention(const std::string& prefix, const Projected& in) const;
  // C [G, S, K]
  Values Codebook(const std::string& prefix) const;
  // What stands for a query or key x [K] of a key/value head.
  Values Features(const std::string& prefix, const double* x, int64_t kv_head, bool of_key) const;
  Values Mlp(const std::string& prefix, const Values& y) const;
  // The norm of the block.
  Values Normed(const Values& x, const std::string& name) const;

  Shape shape_;
  std::map<std::string, Values> w_;
};

}  // namespace tvq::conformance

#endif  // TVQ_TESTS_CONFORMANCE_ORACLE_H_
