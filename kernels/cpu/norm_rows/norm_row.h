// The norm of one row, for the ops that contain one.
#ifndef TVQ_KERNELS_CPU_NORM_ROWS_NORM_ROW_H_
#define TVQ_KERNELS_CPU_NORM_ROWS_NORM_ROW_H_

#include <cstdint>

#include "kernels/ops/norm_rows.h"

namespace tvq {

// Like NormRows; x, out [width], out may be x; gain, bias [width] or null. The order of the sums
// depends on `width` and the instruction set alone.
void NormRow(Norm norm, float epsilon, const float* x, const float* gain, const float* bias,
             int64_t width, float* out);

// Query heads of a gated attention unit: n = x / sqrt(mean(x^2) + epsilon) * t; out_u = n + u,
// out_w = n + w. All [width]; out_u may be x.
void RmsNormQuery(const float* x, float t, const float* u, const float* w, int64_t width,
                  float* out_u, float* out_w);

// Key heads, in place: x = x / sqrt(mean(x^2) + epsilon) * t.
void RmsNormKey(float* x, float t, int64_t width);

}  // namespace tvq

#endif  // TVQ_KERNELS_CPU_NORM_ROWS_NORM_ROW_H_
