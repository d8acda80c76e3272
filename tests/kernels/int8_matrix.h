// Matrices as int8, for tests of who reads them.
#ifndef TVQ_TESTS_KERNELS_INT8_MATRIX_H_
#define TVQ_TESTS_KERNELS_INT8_MATRIX_H_

#include <cstdint>
#include <vector>

#include "kernels/numbers/int8.h"

namespace tvq {

struct Int8Matrix {
  std::vector<int8_t> values;  // [rows, width]
  std::vector<float> scales;   // [rows]
};

inline Int8Matrix QuantizeRows(const std::vector<float>& values, int64_t rows) {
  Int8Matrix matrix{std::vector<int8_t>(values.size()), {}};
  const size_t width = values.size() / static_cast<size_t>(rows);
  for (size_t begin = 0; begin < values.size(); begin += width) {
    const std::span<const float> row(values.data() + begin, width);
    matrix.scales.push_back(Int8Scale(LargestMagnitude(row)));
    QuantizeToInt8(row, matrix.scales.back(), matrix.values.data() + begin);
  }
  return matrix;
}

// scale * q.
inline std::vector<float> Dequantized(const Int8Matrix& matrix) {
  std::vector<float> values;
  values.reserve(matrix.values.size());
  const size_t width = matrix.values.size() / matrix.scales.size();
  for (size_t i = 0; i < matrix.values.size(); ++i) {
    values.push_back(matrix.scales[i / width] * static_cast<float>(matrix.values[i]));
  }
  return values;
}

}  // namespace tvq

#endif  // TVQ_TESTS_KERNELS_INT8_MATRIX_H_
