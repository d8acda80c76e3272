#include "models/runtime/int8_tensor.h"

#include <array>
#include <cmath>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "kernels/numbers/bfloat16.h"

namespace tvq {
namespace {

absl::Status WrongAt(const WeightSource& source, const std::string& name, size_t index,
                     const std::string& found, const char* expected) {
  return absl::InvalidArgumentError(absl::StrCat(source.Where(name), ": ", name, "[", index,
                                                 "] is ", found, ", must be ", expected));
}

absl::StatusOr<std::vector<float>> ReadScales(WeightSource& source, const std::string& name,
                                              int64_t rows, bool as_bfloat16) {
  const absl::StatusOr<HostTensor> tensor = source.Get(name, std::array{rows});
  if (!tensor.ok()) return tensor.status();
  if (tensor->dtype != HostDType::kF32) {
    return absl::InvalidArgumentError(absl::StrCat(source.Where(name), ": ", name, " has dtype ",
                                                   std::string(DTypeName(tensor->dtype)),
                                                   ", must be F32"));
  }
  std::vector<float> scales(static_cast<size_t>(rows));
  if (!scales.empty()) std::memcpy(scales.data(), tensor->data, scales.size() * sizeof(float));
  for (size_t i = 0; i < scales.size(); ++i) {
    const float largest = as_bfloat16 ? ToFloat(ToBFloat16(127 * scales[i])) : 127 * scales[i];
    if (!(scales[i] > 0) || !std::isfinite(scales[i])) {
      return WrongAt(source, name, i, absl::StrCat(scales[i]), "finite and above 0");
    }
    if (!std::isfinite(largest)) {
      return WrongAt(source, name, i, absl::StrCat(scales[i]),
                     "so small that 127 times it is finite");
    }
  }
  return scales;
}

}  // namespace

absl::StatusOr<std::vector<float>> ReadInt8Scales(WeightSource& source, const std::string& name,
                                                  const HostTensor& tensor, bool as_bfloat16) {
  const auto* values = static_cast<const unsigned char*>(tensor.data);
  const auto size = static_cast<size_t>(tensor.ElementCount());
  const void* wrong = size == 0 ? nullptr : std::memchr(values, 0x80, size);
  if (wrong != nullptr) {
    const auto index = static_cast<size_t>(static_cast<const unsigned char*>(wrong) - values);
    return WrongAt(source, name, index, "-128", "from -127 to 127");
  }
  return ReadScales(source, absl::StrCat(name, "_scale"), tensor.shape[0], as_bfloat16);
}

}  // namespace tvq
