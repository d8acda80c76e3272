// Layouts of a Transformer-VQ's state: types of recent values, without and with a read copy.
#ifndef TVQ_TESTS_MODELS_RUNTIME_ARCH_TRANSFORMER_VQ_LAYOUT_CASE_H_
#define TVQ_TESTS_MODELS_RUNTIME_ARCH_TRANSFORMER_VQ_LAYOUT_CASE_H_

#include <gtest/gtest.h>

#include <string>

#include "kernels/ops/attention/vq_attention.h"

namespace tvq::transformer {

struct LayoutCase {
  DType dtype;
  VqRead read;
};

inline auto LayoutCases() {
  return testing::Values(
      LayoutCase{DType::kFloat32, VqRead::kExact}, LayoutCase{DType::kBFloat16, VqRead::kExact},
      LayoutCase{DType::kFloat32, VqRead::kInt8}, LayoutCase{DType::kBFloat16, VqRead::kInt8});
}

inline std::string LayoutCaseName(const testing::TestParamInfo<LayoutCase>& info) {
  return std::string(Name(info.param.dtype)) + (info.param.read == VqRead::kInt8 ? "_copy" : "");
}

}  // namespace tvq::transformer

#endif  // TVQ_TESTS_MODELS_RUNTIME_ARCH_TRANSFORMER_VQ_LAYOUT_CASE_H_
