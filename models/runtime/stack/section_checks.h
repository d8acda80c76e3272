// What every kind checks in sections that it loads: INVALID_ARGUMENT names section and element.
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

// The section's elements, if they are floating point numbers: neither infinite nor NaN. `values` is
// aligned for them.
absl::Status CheckFinite(const SectionInfo& info, Element element, const void* values);

// Float32 pairs, sum and carry (kernels/numbers/two_sum.h): the section, of the carries, holds only
// what its sums cannot.
absl::Status CheckCarries(const SectionInfo& info, const float* sums, const float* carries);

}  // namespace tvq

#endif  // TVQ_MODELS_RUNTIME_STACK_SECTION_CHECKS_H_
