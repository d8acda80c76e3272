#include "models/runtime/layers/attention/vq/parts.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <vector>

#include "absl/strings/str_cat.h"
#include "models/runtime/stack/section_checks.h"

namespace tvq {
namespace {

enum Part : size_t {
  kSum,
  kCarry,
  kCount,
  kCode,
  kValue,
  kMean,
  kMeanScale,
  kRecent,
  kRecentScale
};

std::vector<StatePart> PartsOf(const VqShape& shape) {
  const auto [heads, codes, window, value, dtype, read] = shape;
  std::vector<StatePart> parts = {
      {.name = "acc_sum", .shape = {heads, codes, value}},
      {.name = "acc_carry", .shape = {heads, codes, value}},
      {.name = "acc_count", .element = Element::kInt64, .shape = {heads, codes}},
      {.name = "win_code",
       .element = Element::kInt32,
       .shape = {heads, window},
       .growth = Growth::kRing},
      {.name = "win_value",
       .element = ElementOf(dtype),
       .shape = {heads, window, value},
       .growth = Growth::kRing},
  };
  if (read == VqRead::kExact) return parts;
  for (const int64_t rows : {codes, window}) {
    parts.push_back({.element = Element::kInt8, .shape = {heads, rows, value}, .derived = true});
    parts.push_back({.shape = {heads, rows, shape.scales()}, .derived = true});
  }
  return parts;
}

absl::Status CheckCounts(const VqShape& shape, const SectionInfo& info, int64_t retired,
                         const int64_t* counts) {
  for (int64_t g = 0; g < shape.kv_heads; ++g) {
    int64_t rest = retired;  // of this head, in the rows to come
    for (int64_t s = 0; s < shape.codes; ++s) {
      const int64_t i = g * shape.codes + s;
      if (counts[i] < 0 || counts[i] > rest) {
        return InvalidElement(
            info, i,
            absl::StrCat("is ", counts[i], ", must be 0 to ", rest,
                         ": as many positions have retired and are not counted before"));
      }
      rest -= counts[i];
    }
    if (rest != 0) {
      return InvalidElement(
          info, g * shape.codes,
          absl::StrCat("and the ", shape.codes - 1, " after it add up to ", retired - rest,
                       ", must be ", retired, ": the position less the window"));
    }
  }
  return absl::OkStatus();
}

// Rows of codes that nothing retired to.
absl::Status CheckEmptyRows(const VqShape& shape, const SectionInfo& info, const int64_t* counts,
                            const float* values) {
  for (int64_t row = 0; row < shape.kv_heads * shape.codes; ++row) {
    if (counts[row] != 0) continue;
    const float* begin = values + row * shape.value;
    const float* found = std::find_if(begin, begin + shape.value, [](float v) { return v != 0; });
    if (found == begin + shape.value) continue;
    return InvalidElement(info, found - values,
                          absl::StrCat("is ", *found, ", must be 0: its count is"));
  }
  return absl::OkStatus();
}

absl::Status CheckCodes(const VqShape& shape, const SectionInfo& info,
                        std::span<const std::byte> codes) {
  for (size_t i = 0; i < codes.size() / sizeof(int32_t); ++i) {
    int32_t code;
    std::memcpy(&code, codes.data() + i * sizeof(code), sizeof(code));
    if (code >= 0 && code < shape.codes) continue;
    return InvalidElement(info, static_cast<int64_t>(i),
                          absl::StrCat("is ", code, ", must be 0 to ", shape.codes - 1));
  }
  return absl::OkStatus();
}

}  // namespace

VqParts::VqParts(const VqShape& shape) : LayerParts(PartsOf(shape)), shape_(shape) {}

VqState VqParts::At(const PartMemory& memory) const {
  VqState state;
  state.sum = memory.At<float>(kSum);
  state.carry = memory.At<float>(kCarry);
  state.count = memory.At<int64_t>(kCount);
  state.window_code = memory.At<int32_t>(kCode);
  state.window_value = memory.At<void>(kValue);
  if (shape_.read == VqRead::kExact) return state;
  state.mean = memory.At<int8_t>(kMean);
  state.mean_scale = memory.At<float>(kMeanScale);
  state.recent = memory.At<int8_t>(kRecent);
  state.recent_scale = memory.At<float>(kRecentScale);
  return state;
}

absl::Status VqParts::Check(size_t part, const Read& read) const {
  const SectionInfo& info = read.sections[part];
  const VqState state = At(read.memory);
  if (part == kCode) return CheckCodes(shape_, info, read.last);
  if (part != kCount) return absl::OkStatus();
  const int64_t retired = read.position - std::min(read.position, shape_.window);
  absl::Status s = CheckCounts(shape_, info, retired, state.count);
  if (s.ok()) s = CheckEmptyRows(shape_, read.sections[kSum], state.count, state.sum);
  if (s.ok()) s = CheckEmptyRows(shape_, read.sections[kCarry], state.count, state.carry);
  return s.ok() ? CheckCarries(read.sections[kCarry], state.sum, state.carry) : s;
}

void VqParts::Derive(const PartMemory& memory) const {
  if (shape_.read != VqRead::kExact) BuildVqReadCopy(shape_, At(memory));
}

}  // namespace tvq
