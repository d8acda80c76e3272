// What every kind checks in sections that it loads: INVALID_ARGUMENT names section and element.
#ifndef TVQ_MODELS_RUNTIME_ARCH_TRANSFORMER_SECTION_CHECKS_H_
#define TVQ_MODELS_RUNTIME_ARCH_TRANSFORMER_SECTION_CHECKS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "kernels/device/tensor.h"
#include "models/runtime/state.h"

namespace tvq::transformer {

// "NAME[index] PROBLEM"
absl::Status InvalidElement(const SectionInfo& info, int64_t index, const std::string& problem);

// The section's elements, of `dtype`, float32 or bfloat16: neither infinite nor
// NaN. `values` is aligned for them.
absl::Status CheckFinite(const SectionInfo& info, DType dtype, const void* values);

// Float32 pairs, sum and carry (kernels/numbers/two_sum.h): the section, of the carries, holds only
// what its sums cannot.
absl::Status CheckCarries(const SectionInfo& info, const float* sums, const float* carries);

inline std::span<std::byte> BytesOf(void* data, const SectionInfo& info) {
  return {static_cast<std::byte*>(data), static_cast<size_t>(info.bytes)};
}

}  // namespace tvq::transformer

#endif  // TVQ_MODELS_RUNTIME_ARCH_TRANSFORMER_SECTION_CHECKS_H_
