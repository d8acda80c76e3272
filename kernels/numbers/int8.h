// Matrices as int8: a row is scale * q, q from -127 to 127 and one float32 scale a row.
//
//   scale = max |w| / 127        q = w / scale, to nearest, ties to even
//
// both in float32, so that all code that quantizes gets the same bytes, models/training/quantize.py
// included. A row whose largest value is below 127 times the smallest normal float32 becomes zeros
// with scale 1.
#ifndef TVQ_KERNELS_NUMBERS_INT8_H_
#define TVQ_KERNELS_NUMBERS_INT8_H_

#include <cstdint>
#include <span>

#include "kernels/numbers/quantize.h"

namespace tvq {

// The scale of a row whose largest |value| is `largest`.
float Int8Scale(float largest);

// Writes the q of values of a row, given the row's scale; the values must be finite.
void QuantizeToInt8(std::span<const float> values, float scale, int8_t* q);

// A bound of what rounding a row to int8 by its scale changes: half a scale for each value.
RoundingBound Int8Rounding(std::span<const float> row, float scale);

}  // namespace tvq

#endif  // TVQ_KERNELS_NUMBERS_INT8_H_
