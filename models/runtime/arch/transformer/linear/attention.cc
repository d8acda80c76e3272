#include "models/runtime/arch/transformer/linear/attention.h"

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/ops/attention/linear_attention.h"
#include "models/runtime/arch/transformer/codebook.h"
#include "models/runtime/arch/transformer/memory_parts.h"

namespace tvq::transformer {
namespace {

FeatureMap KeyMap(const TransformerConfig& c) {
  if (c.n_code > 0) return FeatureMap::kSoftAssignment;
  return c.n_feature > 0 ? FeatureMap::kPositive : FeatureMap::kEluPlusOne;
}

int64_t CountFeatures(const TransformerConfig& c) {
  return KeyMap(c) == FeatureMap::kEluPlusOne ? c.d_k : c.n_code + c.n_feature;
}

}  // namespace

LinearAttention::LinearAttention(const TransformerConfig& config, Device& device, DType)
    : config_(config),
      device_(device),
      key_map_(KeyMap(config)),
      parts_({config.n_kv_head, CountFeatures(config), config.d_v}) {}

void LinearAttention::LoadLayer(const std::string& prefix, WeightLoader& loader) {
  if (key_map_ == FeatureMap::kSoftAssignment) {
    tables_.push_back(LoadCodebook(config_, prefix, loader));
  } else if (key_map_ == FeatureMap::kPositive) {
    const std::array<int64_t, 3> shape{config_.n_kv_head, config_.n_feature, config_.d_k};
    const auto rows = loader.Read(prefix + "features", {shape.begin(), shape.end()});
    tables_.push_back(loader.PackKeys(rows, shape));
  }
}

absl::Status LinearAttention::Reserve(int64_t rows) {
  MemoryParts parts;
  parts.Add(&q_, rows * config_.n_head * config_.d_k);
  parts.Add(&k_, rows * config_.n_kv_head * config_.d_k);
  if (compares()) {
    parts.Add(&query_features_, query_features(rows).size());
    parts.Add(&key_features_, key_features(rows).size());
  }
  absl::StatusOr<Buffer> memory = parts.Allocate(device_);
  if (!memory.ok()) return memory.status();
  memory_ = *std::move(memory);
  if (!compares()) {  // in their places
    query_features_ = q_;
    key_features_ = k_;
  }
  return CheckDevice();
}

absl::Status LinearAttention::CheckDevice() {
  const absl::Status s = ComputeFeatures(0, 0);
  if (s.code() != absl::StatusCode::kUnimplemented) return s;
  return absl::UnimplementedError(absl::StrCat(
      "a ", config_.common.model_type, " runs on the device 'cpu' alone; of products of features ",
      "this device takes those of a linear_transformer (", s.message(), ")"));
}

void LinearAttention::View(const PartMemory& memory, std::byte* view) const {
  const LinearState of_layer = parts_.At(memory);
  std::memcpy(view, &of_layer, sizeof(of_layer));
}

void LinearAttention::Project(int64_t, int64_t rows, QkvgProjectionArgs& args) const {
  args.plain_heads = !compares();
  args.q_u = q(rows);
  args.k = k(rows);
}

absl::Status LinearAttention::ComputeFeatures(int64_t layer, int64_t rows) {
  FeaturesArgs keys;
  keys.map = key_map_;
  keys.rows = compares() ? &tables_[static_cast<size_t>(layer)] : nullptr;
  keys.sigma = static_cast<float>(config_.sigma);
  keys.x = k(rows);
  keys.out = key_features(rows);
  if (absl::Status s = Features(device_, keys); !s.ok()) return s;
  if (compares()) return HeadScores(device_, {q(rows), keys.rows, query_features(rows)});
  return Features(device_, {key_map_, q(rows), nullptr, 0, query_features(rows)});
}

absl::Status LinearAttention::Prefill(int64_t layer, const SessionState& state,
                                      const AttentionRows& rows) {
  const int64_t n = rows.v.dim(0);
  if (absl::Status s = ComputeFeatures(layer, n); !s.ok()) return s;
  LinearPrefillAttentionArgs args;
  args.shape = parts_.shape();
  args.state = parts_.At(state.Parts(layer));
  args.position = state.position();
  args.q = query_features(n);
  args.k = key_features(n);
  args.v = rows.v;
  args.out = rows.out;
  args.query_exponents = compares();
  return LinearPrefillAttention(device_, args);
}

absl::Status LinearAttention::Decode(int64_t layer, const RowInputs& inputs,
                                     const AttentionRows& rows) {
  const int64_t n = rows.v.dim(0);
  if (absl::Status s = ComputeFeatures(layer, n); !s.ok()) return s;
  LinearDecodeAttentionArgs args;
  args.shape = parts_.shape();
  args.states = inputs.views<LinearState>(layer);
  args.q = query_features(n);
  args.k = key_features(n);
  args.v = rows.v;
  args.out = rows.out;
  args.query_exponents = compares();
  return LinearDecodeAttention(device_, args);
}

}  // namespace tvq::transformer
