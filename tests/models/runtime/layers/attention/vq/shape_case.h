// Shapes of a Transformer-VQ's state: types of recent values, without and with a read copy.
#ifndef TVQ_TESTS_MODELS_RUNTIME_LAYERS_ATTENTION_VQ_SHAPE_CASE_H_
#define TVQ_TESTS_MODELS_RUNTIME_LAYERS_ATTENTION_VQ_SHAPE_CASE_H_

#include <gtest/gtest.h>

#include <string>

#include "kernels/ops/attention/vq_attention.h"

namespace tvq {

struct ShapeCase {
  DType dtype;
  VqRead read;
};

// Two key/value heads, three codes, a window of five, values of `value`.
inline VqShape ShapeOf(const ShapeCase& c, int64_t value = 5) {
  return {.kv_heads = 2,
          .codes = 3,
          .window = 5,
          .value = value,
          .value_dtype = c.dtype,
          .read = c.read};
}

inline auto ShapeCases() {
  return testing::Values(
      ShapeCase{DType::kFloat32, VqRead::kExact}, ShapeCase{DType::kBFloat16, VqRead::kExact},
      ShapeCase{DType::kFloat32, VqRead::kInt8}, ShapeCase{DType::kBFloat16, VqRead::kInt8});
}

inline std::string ShapeCaseName(const testing::TestParamInfo<ShapeCase>& info) {
  return std::string(Name(info.param.dtype)) + (info.param.read == VqRead::kInt8 ? "_copy" : "");
}

}  // namespace tvq

#endif  // TVQ_TESTS_MODELS_RUNTIME_LAYERS_ATTENTION_VQ_SHAPE_CASE_H_
