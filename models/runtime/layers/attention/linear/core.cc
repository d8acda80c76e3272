#include "models/runtime/layers/attention/linear/core.h"

#include <array>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "kernels/ops/attention/linear_attention.h"
#include "models/runtime/layers/attention/codebook.h"

namespace tvq {
namespace {

FeatureMap KeyMap(const AttentionConfig& c) {
  if (c.n_code > 0) return FeatureMap::kSoftAssignment;
  return c.n_feature > 0 ? FeatureMap::kPositive : FeatureMap::kEluPlusOne;
}

int64_t CountFeatures(const AttentionConfig& c) {
  return KeyMap(c) == FeatureMap::kEluPlusOne ? c.d_k : c.n_code + c.n_feature;
}

}  // namespace

LinearCore::LinearCore(const AttentionConfig& config, Device& device)
    : config_(config),
      device_(device),
      key_map_(KeyMap(config)),
      parts_({config.n_kv_head, CountFeatures(config), config.d_v}) {}

void LinearCore::Load(const std::string& prefix, WeightLoader& loader) {
  if (key_map_ == FeatureMap::kSoftAssignment) {
    table_ = LoadCodebook(config_, prefix, loader);
  } else if (key_map_ == FeatureMap::kPositive) {
    const std::array<int64_t, 3> shape{config_.n_kv_head, config_.n_feature, config_.d_k};
    table_ = loader.PackKeys(loader.Read(prefix + "features", {shape.begin(), shape.end()}), shape);
  }
}

void LinearCore::Reserve(int64_t rows, WorkingMemory& memory) {
  memory.Share(&q_, q(rows).size());
  memory.Share(&k_, k(rows).size());
  if (!compares()) return;  // features overwrite queries and keys
  memory.Share(&query_features_, query_features(rows).size());
  memory.Share(&key_features_, key_features(rows).size());
}

absl::Status LinearCore::Named(const absl::Status& s) const {
  if (s.code() != absl::StatusCode::kUnimplemented) return s;
  return absl::UnimplementedError(absl::StrCat(
      "a ", config_.common.model_type, " runs on the device 'cpu' alone; of products of features ",
      "this device takes those of a linear_transformer (", s.message(), ")"));
}

void LinearCore::View(const PartMemory& memory, std::byte* view) const {
  const LinearState of_layer = parts_.At(memory);
  std::memcpy(view, &of_layer, sizeof(of_layer));
}

void LinearCore::Project(int64_t rows, QkvgProjectionArgs& args) const {
  args.plain_heads = !compares();
  args.q_u = q(rows);
  args.k = k(rows);
}

absl::Status LinearCore::ComputeFeatures(int64_t rows) {
  FeaturesArgs keys;
  keys.map = key_map_;
  keys.rows = compares() ? &table_ : nullptr;
  keys.sigma = static_cast<float>(config_.sigma);
  keys.x = k(rows);
  keys.out = key_features(rows);
  if (absl::Status s = Features(device_, keys); !s.ok()) return s;
  if (compares()) return HeadScores(device_, {q(rows), keys.rows, query_features(rows)});
  return Features(device_, {key_map_, q(rows), nullptr, 0, query_features(rows)});
}

absl::Status LinearCore::Prefill(const LayerState& state, const AttentionRows& rows) {
  const int64_t n = rows.v.dim(0);
  if (absl::Status s = ComputeFeatures(n); !s.ok()) return s;
  LinearPrefillAttentionArgs args;
  args.shape = parts_.shape();
  args.state = parts_.At(state.memory);
  args.position = state.position;
  args.q = query_features(n);
  args.k = key_features(n);
  args.v = rows.v;
  args.out = rows.out;
  args.query_exponents = compares();
  return LinearPrefillAttention(device_, args);
}

absl::Status LinearCore::Decode(const RowStates& states, const AttentionRows& rows) {
  const int64_t n = rows.v.dim(0);
  if (absl::Status s = ComputeFeatures(n); !s.ok()) return s;
  LinearDecodeAttentionArgs args;
  args.shape = parts_.shape();
  args.states = states.As<LinearState>();
  args.q = query_features(n);
  args.k = key_features(n);
  args.v = rows.v;
  args.out = rows.out;
  args.query_exponents = compares();
  return LinearDecodeAttention(device_, args);
}

}  // namespace tvq
