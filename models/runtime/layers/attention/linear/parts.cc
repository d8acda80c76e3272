#include "models/runtime/layers/attention/linear/parts.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "models/runtime/stack/section_checks.h"

namespace tvq {
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

LinearParts::LinearParts(const LinearShape& shape)
    : LayerParts({
          {.name = "key_value_sum", .shape = {shape.kv_heads, shape.features, shape.value}},
          {.name = "key_value_carry", .shape = {shape.kv_heads, shape.features, shape.value}},
          {.name = "key_sum", .shape = {shape.kv_heads, shape.features}},
          {.name = "key_carry", .shape = {shape.kv_heads, shape.features}},
      }),
      shape_(shape) {}

LinearState LinearParts::At(const PartMemory& memory) const {
  LinearState state;
  state.key_value_sum = memory.At<float>(kKeyValueSum);
  state.key_value_carry = memory.At<float>(kKeyValueCarry);
  state.key_sum = memory.At<float>(kKeySum);
  state.key_carry = memory.At<float>(kKeyCarry);
  return state;
}

absl::Status LinearParts::Check(size_t part, const Read& read) const {
  const SectionInfo& info = read.sections[part];
  const auto* const values = read.memory.At<float>(part);
  if (read.position == 0) {
    return CheckAll(info, values, [](float v) { return v == 0; }, "0: nothing was added yet");
  }
  if (part == kKeySum) return CheckKeySums(info, values);
  if (part == kKeyValueSum) return absl::OkStatus();
  return CheckCarries(info, read.memory.At<float>(part - 1), values);
}

absl::Status LinearParts::CheckKeySums(const SectionInfo& info, const float* sums) const {
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

}  // namespace tvq
