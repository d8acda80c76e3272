// Dtypes by the names that kernels/device/tensor.h gives them.
#ifndef TVQ_KERNELS_NUMBERS_PARSE_DTYPE_H_
#define TVQ_KERNELS_NUMBERS_PARSE_DTYPE_H_

#include <string_view>

#include "absl/status/statusor.h"
#include "kernels/device/tensor.h"

namespace tvq {

// INVALID_ARGUMENT, which lists the names, for any other name.
absl::StatusOr<DType> ParseDType(std::string_view name);

}  // namespace tvq

#endif  // TVQ_KERNELS_NUMBERS_PARSE_DTYPE_H_
