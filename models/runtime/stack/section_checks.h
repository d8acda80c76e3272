// Checks of sections that all kinds of layers share. Errors are INVALID_ARGUMENT and name section
// and element.
#ifndef TVQ_MODELS_RUNTIME_STACK_SECTION_CHECKS_H_
#define TVQ_MODELS_RUNTIME_STACK_SECTION_CHECKS_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "models/runtime/stack/state_part.h"
#include "models/runtime/state.h"

namespace tvq {

// "NAME[index] PROBLEM"
absl::Status InvalidElement(const SectionInfo& info, int64_t index, const std::string& problem);

// An error if the section's elements are floating point numbers and one is infinite or NaN.
// `values` must be aligned for `element`.
absl::Status CheckFinite(const SectionInfo& info, Element element, const void* values);

// For float32 pairs of sum and carry (kernels/numbers/two_sum.h): an error if a carry is not lost
// when it is added to its sum in float32. `info` is the section of the carries.
absl::Status CheckCarries(const SectionInfo& info, const float* sums, const float* carries);

}  // namespace tvq

#endif  // TVQ_MODELS_RUNTIME_STACK_SECTION_CHECKS_H_
