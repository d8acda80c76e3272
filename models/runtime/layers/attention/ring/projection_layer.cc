#include "models/runtime/layers/attention/ring/projection_layer.h"

#include <span>
#include <utility>

#include "kernels/ops/norm_rows.h"
#include "models/runtime/layers/attention/rotary/rotary_weights.h"

namespace tvq {
namespace {

// The columns of some query heads of a matrix [D, H K], copied to `values`.
HostMatrix HeadColumns(const MatrixValues& matrix, std::span<const int64_t> heads, int64_t head,
                       std::vector<float>& values) {
  const HostMatrix whole = matrix.View();
  const int64_t in = std::ssize(heads) * head;
  values.resize(static_cast<size_t>(whole.out * in));
  float* to = values.data();
  for (int64_t row = 0; row < whole.out; ++row) {
    for (const int64_t h : heads) {
      ReadValues(whole, row, h * head, head, to);
      to += head;
    }
  }
  return {.data = values.data(), .out = whole.out, .in = in, .scales = whole.scales};
}

// `all` has `size` numbers for each head: those of the listed heads, one behind the other.
std::vector<float> OfHeads(const std::vector<float>& all, std::span<const int64_t> heads,
                           int64_t size) {
  std::vector<float> chosen;
  if (all.empty()) return chosen;  // after an error
  for (const int64_t h : heads) {
    chosen.insert(chosen.end(), all.begin() + h * size, all.begin() + (h + 1) * size);
  }
  return chosen;
}

// Matrices [heads, K, K], each transposed, so that HeadScores multiplies rows by the originals.
std::vector<float> Transposed(const std::vector<float>& matrices, int64_t key) {
  std::vector<float> turned(matrices.size());
  const auto width = static_cast<size_t>(key);
  for (size_t first = 0; first < matrices.size(); first += width * width) {
    for (size_t i = 0; i < width; ++i) {
      for (size_t j = 0; j < width; ++j) {
        turned[first + j * width + i] = matrices[first + i * width + j];
      }
    }
  }
  return turned;
}

bool AllIdentities(const std::vector<float>& matrices, int64_t key) {
  for (size_t i = 0; i < matrices.size(); ++i) {
    const int64_t at = static_cast<int64_t>(i) % (key * key);
    if (matrices[i] != (at % (key + 1) == 0 ? 1.0F : 0.0F)) return false;
  }
  return true;
}

// P P^T of a matrix [K, K].
std::vector<double> Squared(const float* matrix, size_t width) {
  std::vector<double> squared(width * width);
  for (size_t i = 0; i < width; ++i) {
    for (size_t j = 0; j < width; ++j) {
      for (size_t e = 0; e < width; ++e) {
        squared[i * width + j] += double{matrix[i * width + e]} * matrix[j * width + e];
      }
    }
  }
  return squared;
}

// What is needed to find the codeword A_j [G, S, K] nearest to a key in the metric P [G, K, K] of
// its head:
//
//   argmin_j |(k - A_j) P|^2 = argmax_j k . (A_j P P^T) - |A_j P|^2 / 2
struct AssignKeys {
  std::vector<float> keys;        // A P P^T [G, S, K]
  std::vector<float> half_norms;  // [G, S]
};

AssignKeys InMetric(const std::vector<float>& words, const std::vector<float>& metric,
                    int64_t codes, int64_t key) {
  AssignKeys assign;
  const auto width = static_cast<size_t>(key), of_head = static_cast<size_t>(codes) * width;
  for (size_t head = 0; head * of_head < words.size(); ++head) {
    const std::vector<double> squared = Squared(metric.data() + head * width * width, width);
    for (size_t at = head * of_head; at < (head + 1) * of_head; at += width) {
      std::vector<double> product(width);
      for (size_t i = 0; i < width; ++i) {
        const double number = words[at + i];
        for (size_t j = 0; j < width; ++j) product[j] += number * squared[i * width + j];
      }
      double norm = 0;
      for (size_t j = 0; j < width; ++j) norm += product[j] * words[at + j];
      assign.half_norms.push_back(static_cast<float>(norm / 2));
      assign.keys.insert(assign.keys.end(), product.begin(), product.end());
    }
  }
  return assign;
}

// Codewords [G, S, K] with a row of zeros added behind those of each head, for the sink.
std::vector<float> WithSink(const std::vector<float>& words, int64_t codes, int64_t key) {
  std::vector<float> all;
  const int64_t size = codes * key;
  for (int64_t first = 0; first < std::ssize(words); first += size) {
    all.insert(all.end(), words.begin() + first, words.begin() + first + size);
    all.insert(all.end(), static_cast<size_t>(key), 0.0F);
  }
  return all;
}

}  // namespace

void RingProjectionLayer::Load(WeightLoader& loader) {
  const auto& [rotary, codes, groups] = config_;
  const int64_t key = rotary.head, shared = config_.shared();
  const RotaryWeights read = ReadRotaryWeights(rotary, prefix(), loader);
  const std::string name = prefix() + "self_attn.conversion.";
  const auto assign = loader.Read(name + "assign", {rotary.kv_heads, codes, key});
  const auto metric = loader.Read(name + "metric", {rotary.kv_heads, key, key});
  const auto score = loader.Read(name + "score", {rotary.kv_heads, codes, key});
  const auto map = loader.Read(name + "map", {rotary.heads, key, key});
  const auto bias = loader.Read(name + "bias", {rotary.heads});
  gain_ = loader.Upload(read.gain);
  if (rotary.head_norms) {
    q_gain_ = loader.Upload(read.q_gain);
    k_gain_ = loader.Upload(read.k_gain);
  }
  if (rotary.output_bias) o_bias_ = loader.Upload(read.o_bias);
  if (!loader.status().ok()) return;

  std::vector<std::vector<float>> owner;
  std::vector<HostMatrix> rows;
  std::vector<float> biases;
  for (const RingGroup& group : groups) {
    std::vector<int64_t> queries;
    for (const int64_t g : group.heads) {
      for (int64_t i = 0; i < shared; ++i) queries.push_back(g * shared + i);
    }
    const auto take = [&](const MatrixValues& matrix, const std::vector<float>& bias_of,
                          std::span<const int64_t> heads) {
      for (const int64_t h : heads) rows.push_back(CopyRows(matrix, h * key, key, owner));
      const std::vector<float> own = OfHeads(bias_of, heads, key);
      biases.insert(biases.end(), own.begin(), own.end());
    };
    take(read.q, read.q_bias, queries);
    take(read.k, read.k_bias, group.heads);
    take(read.v, read.v_bias, group.heads);

    RingGroupWeights& weights = groups_.emplace_back();
    std::vector<float> columns;
    const HostMatrix o = HeadColumns(read.o, queries, key, columns);
    weights.o = loader.Pack({&o, 1}, read.o.dtype);
    if (group.grows) continue;

    const auto g = std::ssize(group.heads), h = std::ssize(queries);
    const auto own_metric = OfHeads(metric, group.heads, key * key);
    const auto own_map = OfHeads(map, queries, key * key);
    weights.score = loader.PackKeys(WithSink(OfHeads(score, group.heads, codes * key), codes, key),
                                    {g, codes + 1, key});
    const AssignKeys nearest =
        InMetric(OfHeads(assign, group.heads, codes * key), own_metric, codes, key);
    weights.assign = loader.PackKeys(nearest.keys, {g, codes, key}, nearest.half_norms);
    if (!AllIdentities(own_map, key)) {
      weights.map = loader.PackKeys(Transposed(own_map, key), {h, key, key});
    }
    weights.bias = loader.Upload(OfHeads(bias, queries, 1));
  }
  qkv_ = loader.Pack(rows, read.q.dtype);
  if (rotary.qkv_biases) qkv_bias_ = loader.Upload(biases);
}

void RingProjectionLayer::Reserve(int64_t rows, WorkingMemory& memory) {
  if (std::exchange(memory_->reserved, true)) return;
  memory.Keep(&memory_->normed, rows * config_.rotary.width);
  memory.Keep(&memory_->projected, rows * projected_width());
}

absl::Status RingProjectionLayer::Project(const LayerRows& rows) {
  const int64_t n = rows.x.dim(0);
  const Matrix<float> normed{memory_->normed, {n, config_.rotary.width}};
  absl::Status s = NormRows(device_, {.norm = Norm::kRms,
                                      .x = rows.x,
                                      .gain = VectorOf(gain_, config_.rotary.width),
                                      .out = normed,
                                      .epsilon = config_.rotary.epsilon});
  if (!s.ok()) return s;
  LinearArgs linear;
  linear.x = normed;
  linear.weight = &qkv_;
  if (config_.rotary.qkv_biases) linear.bias = VectorOf(qkv_bias_, projected_width());
  linear.y = {memory_->projected, {n, projected_width()}};
  linear.chunk_rows = rows.chunk_rows;
  return Linear(device_, linear);
}

void RingProjectionLayer::Fill(size_t i, int64_t n, RotaryHeadsArgs& args) const {
  args.projected = {memory_->projected, {n, projected_width()}};
  for (size_t before = 0; before < i; ++before) args.column += config_.Columns(before);
  if (config_.rotary.head_norms) {
    args.q_gain = VectorOf(q_gain_, config_.rotary.head);
    args.k_gain = VectorOf(k_gain_, config_.rotary.head);
  }
  args.epsilon = config_.rotary.epsilon;
  args.scale = config_.rotary.scale();
}

absl::Status RingProjectionLayer::Output(size_t i, Tensor<const float, 3> out,
                                         const LayerRows& rows) const {
  LinearArgs args;
  args.x = {out.data, {out.dim(0), out.dim(1) * out.dim(2)}};
  args.weight = &groups_[i].o;
  if (config_.rotary.output_bias && i == 0) args.bias = VectorOf(o_bias_, config_.rotary.width);
  args.accumulate = true;
  args.y = rows.x;
  args.chunk_rows = rows.chunk_rows;
  return Linear(device_, args);
}

}  // namespace tvq
