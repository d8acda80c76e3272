#include "models/runtime/families/rotary/conversion.h"

#include <array>
#include <compare>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/ops/attention/ring_scores.h"
#include "models/runtime/config/config_fields.h"

namespace tvq {
namespace {

// Far above any context that a model is trained with.
constexpr int64_t kMostTrained = int64_t{1} << 22;

// How a key/value head keeps its past: by all its keys, or by a ring of so many positions.
struct Kept {
  bool grows = false;
  int64_t ring = 0;
  auto operator<=>(const Kept&) const = default;
};

// The heads that config.json lists one by one, by layer and head.
using Listed = std::map<std::array<int64_t, 2>, Kept>;

// Adds the heads that a field lists to `listed`.
absl::Status List(const Config& object, std::string_view field, const RotaryConfig& model,
                  const Kept& kept, Listed& listed) {
  const auto heads = object.Pairs(field, model.n_layer, model.attention.kv_heads);
  if (!heads.ok()) return heads.status();
  for (const auto& head : *heads) {
    if (listed.emplace(head, kept).second) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(object.source(), ": conversion lists [", head[0], ", ", head[1],
                     "] twice, must list a layer's key/value head once"));
  }
  return absl::OkStatus();
}

// Reads a length of rings, which may not be longer than the context that the model was trained
// with.
void ReadRing(ConfigFields& fields, int64_t trained, int64_t* ring) {
  fields.Int("ring", ring, kRingStep, trained);
  fields.Require(*ring % kRingStep == 0, "ring", *ring,
                 absl::StrCat("be a multiple of ", kRingStep));
}

}  // namespace

std::vector<int64_t> Conversion::Rings() const {
  std::set<int64_t> rings;
  for (const auto& layer : groups) {
    for (const RingGroup& group : layer) rings.insert(group.ring);
  }
  return {rings.begin(), rings.end()};
}

absl::StatusOr<Conversion> ReadConversion(const Config& config, const RotaryConfig& model) {
  const absl::StatusOr<Config> object = config.Object("conversion");
  if (!object.ok()) return object.status();
  const int64_t layers = model.n_layer, kv_heads = model.attention.kv_heads;
  Conversion read;
  ConfigFields fields(*object);
  int64_t version = 0, ring = 0;
  fields.Int("version", &version, 1, 1);
  fields.Int("codes", &read.codes, 1, kMaxDim);
  fields.Int("trained_context", &read.trained_context, kRingStep, kMostTrained);
  const int64_t chunk = model.common.prefill_chunk;
  fields.Require(read.trained_context % chunk == 0, "trained_context", read.trained_context,
                 absl::StrCat("be a multiple of prefill_chunk, which is ", chunk));
  if (fields.ok()) ReadRing(fields, read.trained_context, &ring);
  if (!fields.ok()) return fields.status();

  Listed listed;
  const auto wide = object->Objects("wide");
  if (!wide.ok()) return wide.status();
  for (const Config& entry : *wide) {
    ConfigFields own(entry);
    Kept kept;
    ReadRing(own, read.trained_context, &kept.ring);
    if (!own.ok()) return own.status();
    if (absl::Status s = List(entry, "heads", model, kept, listed); !s.ok()) return s;
  }
  const Kept pages{.grows = true, .ring = ring};
  if (absl::Status s = List(*object, "grow", model, pages, listed); !s.ok()) return s;
  for (int64_t layer = 0; layer < layers; ++layer) {
    std::map<Kept, std::vector<int64_t>> heads_by_kept;
    for (int64_t head = 0; head < kv_heads; ++head) {
      const auto found = listed.find({layer, head});
      heads_by_kept[found == listed.end() ? Kept{.ring = ring} : found->second].push_back(head);
    }
    auto& groups = read.groups.emplace_back();
    for (auto& [kept, heads] : heads_by_kept) {
      groups.push_back({kept.ring, std::move(heads), kept.grows});
    }
  }

  const int64_t heads = model.attention.heads, longest = read.Rings().back();
  fields.LimitSize("prefill_chunk, num_attention_heads and the longest ring", model.rows(),
                   heads * longest);
  fields.LimitSize("codes, num_key_value_heads and head_dim", (read.codes + 1) * kv_heads,
                   model.attention.head);
  if (!fields.ok()) return fields.status();
  return read;
}

}  // namespace tvq
