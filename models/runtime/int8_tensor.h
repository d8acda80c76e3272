#ifndef TVQ_MODELS_RUNTIME_INT8_TENSOR_H_
#define TVQ_MODELS_RUNTIME_INT8_TENSOR_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "models/runtime/weights.h"

namespace tvq {

// The scales of the I8 matrix `tensor` [rows, width], which `source` gave for NAME: NAME + "_scale"
// [rows] of F32. INVALID_ARGUMENT, NOT_FOUND or DATA_LOSS naming the tensor and what would be
// right: -128 among the values; scales that are not there, not so many, not finite and above 0, or
// so large that 127 times one is no float32 (with `as_bfloat16`: no bfloat16).
absl::StatusOr<std::vector<float>> ReadInt8Scales(WeightSource& source, const std::string& name,
                                                  const HostTensor& tensor, bool as_bfloat16);

}  // namespace tvq

#endif  // TVQ_MODELS_RUNTIME_INT8_TENSOR_H_
