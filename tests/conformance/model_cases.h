// The models that the conformance tests run, every kind of attention in both blocks, on every
// device and instruction set.
#ifndef TVQ_TESTS_CONFORMANCE_MODEL_CASES_H_
#define TVQ_TESTS_CONFORMANCE_MODEL_CASES_H_

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "kernels/ops/attention/linear_attention.h"
#include "tests/conformance/fixture.h"
#include "tests/conformance/oracle.h"
#include "tests/kernels/test_devices.h"

namespace tvq::conformance {

std::vector<Shape> Shapes();

struct Case {
  Shape shape;
  DeviceCase backend;
};

// Every shape on every device that has it and is not too slow for it.
std::vector<Case> Cases();

std::string CaseName(const testing::TestParamInfo<Case>& info);

// Its tests lie in model_test.cc, session_bits_test.cc and draft_rows_test.cc.
class ModelTest : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override { TVQ_SKIP_WITHOUT_DEVICE(GetParam().backend); }
  const Shape& shape() const { return GetParam().shape; }
  // The CUDA kernels on the CPU take milliseconds a step.
  bool slow() const { return GetParam().backend.name == "cuda_stand_in"; }
  // Naive loops, or one number at a time, under AddressSanitizer.
  bool naive() const {
    return GetParam().backend.name == "reference" || GetParam().backend.variant == "scalar";
  }
  // AMX tiles, computed in software.
  bool amx_stand_in() const { return GetParam().backend.variant == kAmxStandIn.variant; }
  // GPUs do not.
  bool HasInt4() const { return !GetParam().backend.name.starts_with("cuda"); }
  Fixture Make(DType dtype = DType::kFloat32, int threads = 2, const StateReads& reads = {}) {
    return Fixture(shape(), GetParam().backend, dtype, threads, {}, reads);
  }
  // How decode may read states: exactly, and where there is a choice neither exactly nor whole.
  std::vector<StateReads> Reads() const {
    if (!shape().has_codes()) return {{}};
    return {{}, {.int8 = true, .skip_mass = 0.02F}};
  }
  // One of them where kernels are slow: for what does not depend on how they read.
  std::vector<StateReads> FewReads() const {
    return slow() ? std::vector<StateReads>{Reads().back()} : Reads();
  }
  size_t window() const { return static_cast<size_t>(shape().mem_len) + 1; }
  // Enough for what changes with the position: a window that turns twice, a cache's second page, a
  // second block of features' products.
  size_t length() const {
    if (shape().grows()) return 270;
    if (shape().linear() && slow()) return static_cast<size_t>(kLinearPrefillBlock) + 8;
    return slow() ? 2 * window() + 16 : 150;
  }
};

}  // namespace tvq::conformance

#endif  // TVQ_TESTS_CONFORMANCE_MODEL_CASES_H_
