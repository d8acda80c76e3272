#include "tests/bench/byte_model.h"

#include <cmath>

#include "kernels/numbers/int4.h"
#include "kernels/ops/attention/vq_attention.h"

namespace tvq::bench {
namespace {

// Of a row of the read copy: int8 values and their scales.
int64_t CopyRowBytes(const TransformerConfig& c) {
  return c.d_v + (c.d_v + kVqScaleColumns - 1) / kVqScaleColumns * 4;
}

// With the groups' scales, of rows of whole groups.
int64_t Int4Bytes(int64_t elements) {
  return elements / 2 + elements / kInt4Group * static_cast<int64_t>(sizeof(BFloat16));
}

// Rows of values: those that are read, and beside a copy the exact ones that a step changes.
std::vector<ByteLine> ValueLines(const TransformerConfig& c, const StateTraffic& state) {
  const int64_t v = static_cast<int64_t>(SizeOf(state.dtype));
  const int64_t L = c.n_layer, G = c.n_kv_head, V = c.d_v, S = c.n_code, W = c.window();
  const char* const op = "vq_decode_attention";
  const auto read = [&](int64_t bytes) { return std::llround(state.rows_read * double(bytes)); };
  const auto formula = [&](const char* all) {
    return std::string(state.rows_read < 1 ? "r " : "") + all;
  };
  if (state.copy) {
    const int64_t row = CopyRowBytes(c);
    return {
        {op, "mean rows, int8 with scales", formula("L G S (V + V/16)"), read(L * G * S * row),
         true},
        {op, "recent values, int8 with scales", formula("L G (M+1) (V + V/16)"),
         read(L * G * W * row), true},
        {op, "sum and value that retirement changes", "L G V (4 + v)", L * G * V * (4 + v), true}};
  }
  return {
      {op, "accumulator sums, float32", formula("L G S V 4"), read(L * G * S * V * 4), true},
      {op, "values of recent positions", formula("L G (M+1) V v"), read(L * G * W * V * v), true}};
}

}  // namespace

std::vector<ByteLine> StepByteLines(const TransformerConfig& c, DType dtype,
                                    const StateTraffic& state) {
  // Of embedding and logits; int4 is for the projections alone.
  const int64_t w = static_cast<int64_t>(SizeOf(dtype == DType::kInt4 ? DType::kInt8 : dtype));
  const auto projection = [&](int64_t elements) {
    return dtype == DType::kInt4 ? Int4Bytes(elements) : elements * w;
  };
  const int64_t L = c.n_layer, D = c.d_model, H = c.n_head, G = c.n_kv_head, K = c.d_k, V = c.d_v;
  const int64_t S = c.n_code, W = c.window(), vocab = c.common.vocab_size;
  std::vector<ByteLine> lines = {
      {"qkvg_projection", "query, key, value, gate projections", "L (H+G)(K+V) D w",
       projection(L * (H + G) * (K + V) * D)},
      {"gated_output", "output projections", "L H V D w", projection(L * H * V * D)},
      {"vq_scores", "codebooks, with half norms", "L G S (K+1) 4", L * G * S * (K + 1) * 4},
      {"vq_scores", "position keys, float32", "L H (M+1) K 4", L * H * W * K * 4},
      {"qkvg_projection", "norms and biases", "L (2 D + 2 H K) 4", L * (2 * D + 2 * H * K) * 4},
      {"linear", "logits", "vocab (D w + 4)", vocab * (D * w + 4)},
      {"vq_decode_attention", "accumulator counts", "L G S 8", L * G * S * 8, true},
      {"vq_decode_attention", "codes of recent positions", "L G (M+1) 4", L * G * W * 4, true},
      {"vq_decode_attention", "carry of the row that takes the retired value", "L G V 4",
       L * G * V * 4, true},
      {"embedding", "embedding row", "D w", D * w, true},
  };
  for (ByteLine& line : ValueLines(c, state)) lines.push_back(std::move(line));
  if (dtype == DType::kInt8) {
    const int64_t rows = L * ((H + G) * (K + V) + D) + vocab;
    lines.push_back({"", "scales of int8 rows", "(L ((H+G)(K+V) + D) + vocab) 4", rows * 4});
  }
  if (dtype == DType::kInt4) {
    lines.push_back({"", "scales of int8 rows", "vocab 4", vocab * 4});
  }
  return lines;
}

int64_t StepBytes(const std::vector<ByteLine>& lines, int64_t batch) {
  int64_t bytes = 0;
  for (const ByteLine& line : lines) bytes += line.bytes * (line.per_session ? batch : 1);
  return bytes;
}

int64_t OpBytes(const std::vector<ByteLine>& lines, const std::string& op, int64_t batch) {
  int64_t bytes = 0;
  for (const ByteLine& line : lines) {
    if (line.op == op) bytes += line.bytes * (line.per_session ? batch : 1);
  }
  return bytes;
}

StepFlops DecodeFlops(const TransformerConfig& c, int64_t batch) {
  const int64_t L = c.n_layer, D = c.d_model, H = c.n_head, G = c.n_kv_head, K = c.d_k, V = c.d_v;
  const int64_t S = c.n_code, W = c.window();
  const int64_t projections = (H + G) * (K + V) * D + H * V * D;
  const int64_t attention = G * S * K + H * (S + W) * (K + V);
  return {.matrix = 2 * batch * (L * projections + D * c.common.vocab_size),
          .other = 2 * batch * L * attention};
}

int64_t SessionBytes(const TransformerConfig& c, DType state_dtype, bool copy) {
  const int64_t value = static_cast<int64_t>(SizeOf(state_dtype));
  const int64_t accumulator = c.n_code * (c.d_v * (4 + 4) + 8);  // sum, carry, count
  const int64_t recent = c.window() * (c.d_v * value + 4);       // value, code
  const int64_t copied = copy ? (c.n_code + c.window()) * CopyRowBytes(c) : 0;
  return c.n_layer * c.n_kv_head * (accumulator + recent + copied);
}

int64_t PrefillFlops(const TransformerConfig& c) {
  const int64_t H = c.n_head, G = c.n_kv_head, K = c.d_k, V = c.d_v, D = c.d_model;
  const int64_t projections = (H + G) * (K + V) * D + H * V * D;
  const int64_t assignment = G * c.n_code * K;
  const int64_t scores = H * (c.n_code + c.window()) * K;
  const int64_t values = H * (c.n_code + c.window()) * V;
  return 2 * c.n_layer * (projections + assignment + scores + values);
}

}  // namespace tvq::bench
