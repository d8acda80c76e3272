// Matrices in host memory as weight files hold them, read in the forms that devices keep.
#ifndef TVQ_KERNELS_NUMBERS_HOST_MATRIX_H_
#define TVQ_KERNELS_NUMBERS_HOST_MATRIX_H_

#include <cstdint>

#include "kernels/device/tensor.h"

namespace tvq {

// [out, in], row-major, at any address.
struct HostMatrix {
  // Writes values [first, first + count) of `data` as float32.
  using Reader = void (*)(const void* data, int64_t first, int64_t count, float* to);

  const void* data = nullptr;
  int64_t out = 0;
  int64_t in = 0;
  DType dtype = DType::kFloat32;  // float32, bfloat16 or int8, -127 to 127
  // [out], above 0. The scales of int8 values; for other values, the scales by which they are to
  // become int8 (kernels/numbers/int8.h).
  const float* scales = nullptr;
  Reader reader = nullptr;  // for values in a form that no device has; `dtype` is float32 then
};

// Writes values [first, first + count) of a row; for int8 they are scale * q.
void ReadValues(const HostMatrix& matrix, int64_t row, int64_t first, int64_t count, float* to);
// The same, rounded to nearest even.
void ReadValues(const HostMatrix& matrix, int64_t row, int64_t first, int64_t count, BFloat16* to);
// The same, but writes the q of each value; the matrix must have scales.
void ReadValues(const HostMatrix& matrix, int64_t row, int64_t first, int64_t count, int8_t* to);

}  // namespace tvq

#endif  // TVQ_KERNELS_NUMBERS_HOST_MATRIX_H_
