#ifndef TVQ_MODELS_RUNTIME_INT8_TENSOR_H_
#define TVQ_MODELS_RUNTIME_INT8_TENSOR_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "models/runtime/weights.h"

namespace tvq {

// The scales of the I8 matrix `tensor` [rows, width], which `source` gave for `name`: the tensor
// `name` + "_scale", F32 [rows]. INVALID_ARGUMENT, NOT_FOUND or DATA_LOSS, naming the tensor and
// what would be right: if a value is -128; if the scales are missing or of another shape; if a
// scale is not finite and above 0, or if 127 times it is not a finite float32 (with `as_bfloat16`:
// not a finite bfloat16).
absl::StatusOr<std::vector<float>> ReadInt8Scales(WeightSource& source, const std::string& name,
                                                  const HostTensor& tensor, bool as_bfloat16);

}  // namespace tvq

#endif  // TVQ_MODELS_RUNTIME_INT8_TENSOR_H_
