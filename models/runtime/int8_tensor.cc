#include "models/runtime/int8_tensor.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "kernels/bfloat16.h"

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

// In pieces whose sums fit an int32, which compilers turn into vector instructions.
int64_t SumOfSquares(const int8_t* values, size_t count) {
  constexpr size_t kPiece = 1 << 16;
  int64_t sum = 0;
  for (size_t begin = 0; begin < count; begin += kPiece) {
    int32_t piece = 0;
    for (size_t i = begin; i < std::min(count, begin + kPiece); ++i) piece += values[i] * values[i];
    sum += piece;
  }
  return sum;
}

}  // namespace

absl::StatusOr<Int8Matrix> ReadInt8(WeightSource& source, const std::string& name,
                                    const HostTensor& tensor, bool as_bfloat16) {
  Int8Matrix matrix;
  const auto* values = static_cast<const int8_t*>(tensor.data);
  matrix.values.assign(values, values + tensor.ElementCount());
  for (size_t i = 0; i < matrix.values.size(); ++i) {
    if (matrix.values[i] == -128) return WrongAt(source, name, i, "-128", "from -127 to 127");
  }
  absl::StatusOr<std::vector<float>> scales =
      ReadScales(source, absl::StrCat(name, "_scale"), tensor.shape[0], as_bfloat16);
  if (!scales.ok()) return scales.status();
  matrix.scales = *std::move(scales);
  return matrix;
}

double Int8Rounding(const Int8Matrix& matrix) {
  if (matrix.values.empty()) return 0;
  const size_t width = matrix.values.size() / matrix.scales.size();
  double errors = 0, squares = 0;
  for (size_t row = 0; row < matrix.scales.size(); ++row) {
    const double step = static_cast<double>(matrix.scales[row]) * matrix.scales[row];
    const auto sum = static_cast<double>(SumOfSquares(matrix.values.data() + row * width, width));
    // A row of zeros was zeros.
    if (sum > 0) errors += step * static_cast<double>(width) / 4;
    squares += step * sum;
  }
  return squares > 0 ? std::sqrt(errors / squares) : 0;
}

}  // namespace tvq
