#ifndef TVQ_MODELS_RUNTIME_INT8_TENSOR_H_
#define TVQ_MODELS_RUNTIME_INT8_TENSOR_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "kernels/int8.h"
#include "models/runtime/weights.h"

namespace tvq {

// The I8 matrix `tensor` [rows, width], which `source` gave for NAME, with its scales, NAME +
// "_scale" [rows] of F32. INVALID_ARGUMENT, NOT_FOUND or DATA_LOSS naming the tensor and what would
// be right: -128 among the values; scales that are not there, not so many, not finite and above 0,
// or so large that 127 times one is no float32 (with `as_bfloat16`: no bfloat16).
absl::StatusOr<Int8Matrix> ReadInt8(WeightSource& source, const std::string& name,
                                    const HostTensor& tensor, bool as_bfloat16);

// A bound of what rounding to int8 changed, relative to what is there now, in the root mean square:
// a value errs by at most half a scale.
double Int8Rounding(const Int8Matrix& matrix);

}  // namespace tvq

#endif  // TVQ_MODELS_RUNTIME_INT8_TENSOR_H_
