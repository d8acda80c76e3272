#include "models/runtime/arch/transformer/linear/layout.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "models/runtime/arch/transformer/memory_parts.h"
#include "models/runtime/arch/transformer/section_checks.h"

namespace tvq::transformer {
namespace {

enum Part : size_t { kKeyValueSum, kKeyValueCarry, kKeySum, kKeyCarry };

absl::Status CheckAll(const SectionInfo& info, const float* values, bool (*right)(float),
                      const char* wanted) {
  const float* end = values + info.bytes / static_cast<int64_t>(sizeof(float));
  const float* wrong = std::find_if_not(values, end, right);
  if (wrong == end) return absl::OkStatus();
  return InvalidElement(info, wrong - values, absl::StrCat("is ", *wrong, ", must be ", wanted));
}

}  // namespace

LinearLayout::LinearLayout(const TransformerConfig& c, int64_t features)
    : StateLayout(c.n_layer), shape_{c.n_kv_head, features, c.d_v} {
  const int64_t pair = Aligned(c.n_kv_head * features * c.d_v * 4);
  const int64_t key = Aligned(c.n_kv_head * features * 4);
  carry_ = pair;
  key_sum_ = 2 * pair;
  key_carry_ = key_sum_ + key;
  layer_bytes_ = key_carry_ + key;
}

LinearState LinearLayout::At(std::byte* p) const {
  LinearState state;
  state.key_value_sum = reinterpret_cast<float*>(p);
  state.key_value_carry = reinterpret_cast<float*>(p + carry_);
  state.key_sum = reinterpret_cast<float*>(p + key_sum_);
  state.key_carry = reinterpret_cast<float*>(p + key_carry_);
  return state;
}

std::array<float*, LinearLayout::kParts> LinearLayout::Parts(const LinearState& state) {
  return {state.key_value_sum, state.key_value_carry, state.key_sum, state.key_carry};
}

std::vector<SectionInfo> LinearLayout::Sections(int64_t layer, int64_t) const {
  const std::string prefix = absl::StrCat("layers.", layer, ".");
  const auto [heads, features, value] = shape_;
  return {MakeSection(prefix + "key_value_sum", 4, {heads, features, value}),
          MakeSection(prefix + "key_value_carry", 4, {heads, features, value}),
          MakeSection(prefix + "key_sum", 4, {heads, features}),
          MakeSection(prefix + "key_carry", 4, {heads, features})};
}

absl::Status LinearLayout::Visit(int64_t layer, int64_t position, std::byte* host, int64_t skipped,
                                 const State::SectionVisitor& visit) const {
  const std::vector<SectionInfo> sections = Sections(layer, position);
  const auto parts = Parts(At(host));
  absl::Status s;
  for (auto i = static_cast<size_t>(skipped); s.ok() && i < kParts; ++i) {
    s = visit(sections[i], BytesOf(parts[i], sections[i]));
  }
  return s;
}

absl::Status LinearLayout::Load(int64_t layer, int64_t position, const State::SectionReader& read,
                                std::byte* host) const {
  const std::vector<SectionInfo> sections = Sections(layer, position);
  const auto parts = Parts(At(host));
  absl::Status s;
  for (size_t i = 0; s.ok() && i < kParts; ++i) {
    const SectionInfo& info = sections[i];
    s = read(info, BytesOf(parts[i], info));
    if (s.ok()) s = CheckPart(i, info, position, parts[i]);
    if (s.ok() && (i == kKeyValueCarry || i == kKeyCarry)) {
      s = CheckCarries(info, parts[i - 1], parts[i]);
    }
  }
  return s;
}

absl::Status LinearLayout::CheckPart(size_t part, const SectionInfo& info, int64_t position,
                                     const float* values) const {
  if (absl::Status s = CheckFinite(info, DType::kFloat32, values); !s.ok()) return s;
  if (position == 0) {
    return CheckAll(info, values, [](float v) { return v == 0; }, "0: nothing was added yet");
  }
  return part == kKeySum ? CheckKeySums(info, values) : absl::OkStatus();
}

absl::Status LinearLayout::CheckKeySums(const SectionInfo& info, const float* sums) const {
  absl::Status s =
      CheckAll(info, sums, [](float v) { return v >= 0; }, "0 or more: features are positive");
  for (int64_t first = 0; s.ok() && first < shape_.kv_heads * shape_.features;
       first += shape_.features) {
    const float* of_head = sums + first;
    if (std::any_of(of_head, of_head + shape_.features, [](float v) { return v > 0; })) continue;
    s = InvalidElement(info, first,
                       absl::StrCat("and the ", shape_.features - 1,
                                    " after it are 0, must not be after a position"));
  }
  return s;
}

void LinearLayout::Synthesize(int64_t position, SyntheticValues& values, std::byte* host) const {
  const LinearState layer = At(host);
  const auto n = static_cast<float>(position);
  const int64_t keys = shape_.kv_heads * shape_.features;
  for (int64_t i = 0; i < keys; ++i) layer.key_sum[i] = (1 + values.NextValue()) * n;
  for (int64_t i = 0; i < keys * shape_.value; ++i) {
    layer.key_value_sum[i] = values.NextValue() * layer.key_sum[i / shape_.value];
  }
}

}  // namespace tvq::transformer
