#include "kernels/numbers/parse_dtype.h"

#include <string>

#include "absl/strings/str_cat.h"

namespace tvq {

absl::StatusOr<DType> ParseDType(std::string_view name) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kInt8, DType::kInt4}) {
    if (name == Name(dtype)) return dtype;
  }
  return absl::InvalidArgumentError(absl::StrCat("dtype is \"", std::string(name),
                                                 "\", must be float32, bfloat16, int8 or int4"));
}

}  // namespace tvq
