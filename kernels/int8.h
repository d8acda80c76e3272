// Matrices as int8: a row is scale * q, q from -127 to 127 and one float32 scale a row.
//
//   scale = max |w| / 127        q = w / scale, to nearest, ties to even
//
// both in float32, so that whoever quantizes gets the same bytes (models/training/quantize.py
// does). A row whose largest value is below 127 times the smallest normal float32 becomes zeros
// with scale 1.
#ifndef TVQ_KERNELS_INT8_H_
#define TVQ_KERNELS_INT8_H_

#include <cstdint>
#include <vector>

namespace tvq {

struct Int8Matrix {
  std::vector<int8_t> values;  // [rows, width]
  std::vector<float> scales;   // [rows], above 0
};

// values [rows, width], finite.
Int8Matrix QuantizeRows(const float* values, int64_t rows, int64_t width);

// scale * q, rounded once.
std::vector<float> DequantizeRows(const int8_t* values, const float* scales, int64_t rows,
                                  int64_t width);

}  // namespace tvq

#endif  // TVQ_KERNELS_INT8_H_
