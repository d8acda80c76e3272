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
  kKey,  // this and the next only if keys are kept
  kSinkKey,
};

// The index of the first part of the read copy.
size_t FirstCopy(const VqShape& shape) { return shape.key > 0 ? kSinkKey + 1 : kKey; }

std::vector<StatePart> PartsOf(const VqShape& shape) {
  const auto [heads, codes, window, value, dtype, read, key] = shape;
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
  if (key > 0) {
    parts.push_back({.name = "win_key",
                     .element = ElementOf(dtype),
                     .shape = {heads, window, key},
                     .growth = Growth::kRing,
                     .panel = kKeyPanel});
    parts.push_back({.name = "sink_key", .shape = {heads, key}});
  }
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
    int64_t rest = retired;  // retired positions of this head that are not counted yet
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

// Rows of codes to which no position has retired must be 0.
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

// Checks the codes of the positions in the window of a state at `position`.
absl::Status CheckCodes(const VqShape& shape, const SectionInfo& info, int64_t position,
                        std::span<const std::byte> codes) {
  const int64_t kept = std::min(position, shape.window);
  for (int64_t i = 0; i < shape.kv_heads * kept; ++i) {
    int32_t code;
    std::memcpy(&code, codes.data() + static_cast<size_t>(i) * sizeof(code), sizeof(code));
    const bool sink = shape.key > 0 && position - kept + i % kept == 0;
    const int64_t least = sink ? shape.codes - 1 : 0;
    const int64_t most = shape.key > 0 && !sink ? shape.codes - 2 : shape.codes - 1;
    if (code >= least && code <= most) continue;
    return InvalidElement(info, i,
                          sink ? absl::StrCat("is ", code, ", must be ", most, ": of position 0")
                               : absl::StrCat("is ", code, ", must be 0 to ", most));
  }
  return absl::OkStatus();
}

// The last code counts position 0, once that has retired, and no other position.
absl::Status CheckSink(const VqShape& shape, const SectionInfo& info, int64_t retired,
                       const int64_t* counts) {
  const int64_t wanted = retired > 0 ? 1 : 0;
  for (int64_t i = shape.codes - 1; i < shape.kv_heads * shape.codes; i += shape.codes) {
    if (counts[i] == wanted) continue;
    return InvalidElement(info, i,
                          absl::StrCat("is ", counts[i], ", must be ", wanted, ": of position 0"));
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
  if (shape_.key > 0) {
    state.window_key = memory.At<void>(kKey);
    state.sink_key = memory.At<float>(kSinkKey);
  }
  if (shape_.read == VqRead::kExact) return state;
  const size_t copy = FirstCopy(shape_);
  state.mean = memory.At<int8_t>(copy);
  state.mean_scale = memory.At<float>(copy + 1);
  state.recent = memory.At<int8_t>(copy + 2);
  state.recent_scale = memory.At<float>(copy + 3);
  return state;
}

absl::Status VqParts::Check(size_t part, const Read& read) const {
  const SectionInfo& info = read.sections[part];
  const VqState state = At(read.memory);
  if (part == kCode) return CheckCodes(shape_, info, read.position, read.last);
  if (part != kCount) return absl::OkStatus();
  const int64_t retired = read.position - std::min(read.position, shape_.window);
  absl::Status s = CheckCounts(shape_, info, retired, state.count);
  if (s.ok() && shape_.key > 0) s = CheckSink(shape_, info, retired, state.count);
  if (s.ok()) s = CheckEmptyRows(shape_, read.sections[kSum], state.count, state.sum);
  if (s.ok()) s = CheckEmptyRows(shape_, read.sections[kCarry], state.count, state.carry);
  return s.ok() ? CheckCarries(read.sections[kCarry], state.sum, state.carry) : s;
}

void VqParts::Derive(const PartMemory& memory) const {
  if (shape_.read != VqRead::kExact) BuildVqReadCopy(shape_, At(memory));
}

}  // namespace tvq
