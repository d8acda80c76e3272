#include "models/runtime/stack/section_checks.h"

#include <algorithm>
#include <bit>

#include "absl/strings/str_cat.h"
#include "kernels/numbers/bfloat16.h"

namespace tvq {
namespace {

static_assert(std::endian::native == std::endian::little, "sections are little-endian");

bool IsFinite(float value) { return (std::bit_cast<uint32_t>(value) & 0x7f800000U) != 0x7f800000U; }
bool IsFinite(BFloat16 value) { return IsFinite(ToFloat(value)); }
float Widened(float value) { return value; }
float Widened(BFloat16 value) { return ToFloat(value); }

// A state has tens of millions of values, so runs of so many values are checked as a whole first,
// without a branch for each value.
constexpr int64_t kRun = 4096;

template <typename T>
absl::Status CheckRuns(const SectionInfo& info, const T* values) {
  const int64_t count = info.bytes / static_cast<int64_t>(sizeof(T));
  for (int64_t first = 0; first < count; first += kRun) {
    const int64_t end = std::min(first + kRun, count);
    int bad = 0;
    for (int64_t i = first; i < end; ++i) bad |= IsFinite(values[i]) ? 0 : 1;
    if (bad == 0) continue;
    const T* found = std::find_if(values + first, values + end, [](T v) { return !IsFinite(v); });
    return InvalidElement(info, found - values,
                          absl::StrCat("is ", Widened(*found), ", must be finite"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status InvalidElement(const SectionInfo& info, int64_t index, const std::string& problem) {
  return absl::InvalidArgumentError(absl::StrCat(info.name, "[", index, "] ", problem));
}

absl::Status CheckCarries(const SectionInfo& info, const float* sums, const float* carries) {
  const int64_t count = info.bytes / static_cast<int64_t>(sizeof(float));
  for (int64_t first = 0; first < count; first += kRun) {
    const int64_t end = std::min(first + kRun, count);
    int bad = 0;
    for (int64_t i = first; i < end; ++i) bad |= sums[i] + carries[i] == sums[i] ? 0 : 1;
    for (int64_t i = first; bad != 0 && i < end; ++i) {
      if (sums[i] + carries[i] == sums[i]) continue;
      return InvalidElement(info, i,
                            absl::StrCat("is ", carries[i], ", must be lost beside its sum, ",
                                         sums[i], ", which would hold it"));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckFinite(const SectionInfo& info, Element element, const void* values) {
  if (element == Element::kFloat32) return CheckRuns(info, static_cast<const float*>(values));
  if (element == Element::kBFloat16) return CheckRuns(info, static_cast<const BFloat16*>(values));
  return absl::OkStatus();
}

}  // namespace tvq
