// The norm of one row, for the ops that contain one.
#ifndef TVQ_KERNELS_CPU_LAYER_NORM_LAYER_NORM_ROW_H_
#define TVQ_KERNELS_CPU_LAYER_NORM_LAYER_NORM_ROW_H_

#include <cstdint>

namespace tvq {

// out = (x - mean) / sqrt(variance + epsilon) * gain + bias; x, out [width], out may be x; gain,
// bias [width] or null. The order of the sums depends on `width` and the instruction set alone.
void LayerNormRow(const float* x, const float* gain, const float* bias, int64_t width, float* out);

}  // namespace tvq

#endif  // TVQ_KERNELS_CPU_LAYER_NORM_LAYER_NORM_ROW_H_
