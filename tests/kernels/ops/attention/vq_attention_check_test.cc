// What arguments of VQ attention are refused, and that the error names what is wrong.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "kernels/ops/attention/vq_attention.h"
#include "tests/kernels/ops/attention/vq_state.h"
#include "tests/kernels/test_devices.h"

namespace tvq {
namespace {

using ::testing::HasSubstr;

TEST(VqAttentionCheckTest, NamesFactorsThatThereAreNot) {
  const auto cpu = MakeTestDevice("cpu");
  VqPrefillAttentionArgs args;
  args.shape = {1, 4, 3, 2, DType::kFloat32};
  args.factors = DType::kInt8;
  EXPECT_THAT(std::string(VqPrefillAttention(*cpu, args).message()),
              HasSubstr("factors are int8, expected float32 or bfloat16"));
}

TEST(VqAttentionCheckTest, NamesWhatIsWrong) {
  const auto cpu = MakeTestDevice("cpu");
  const VqShape shape{1, 4, 3, 2, DType::kFloat32};
  VqInputs inputs(shape, 2, 1, 1);
  OwnedState state(*cpu, shape);
  std::vector<float> out(2);
  const auto prefill = [&](const VqShape& s, const VqState& view, int64_t position) {
    return std::string(VqPrefillAttention(*cpu, {s,
                                                 view,
                                                 position,
                                                 {inputs.code_scores.data(), {1, 1, 4}},
                                                 {inputs.position_scores.data(), {1, 1, 3}},
                                                 {inputs.codes.data(), {1, 1}},
                                                 {inputs.v.data(), {1, 1, 2}},
                                                 {out.data(), {1, 1, 2}}})
                           .message());
  };
  EXPECT_THAT(prefill({1, 4, 0, 2}, state.View(), 0), HasSubstr("window of 0"));
  EXPECT_THAT(prefill({1, 4, 3, 5}, state.View(), 0), HasSubstr("v is [1,1,2], expected [1,1,5]"));
  EXPECT_THAT(prefill(shape, state.View(), -1), HasSubstr("position is -1"));
  EXPECT_THAT(prefill(shape, {}, 0), HasSubstr("state lacks memory"));
  VqShape copied = shape;
  copied.read = VqRead::kInt8;
  EXPECT_THAT(prefill(copied, state.View(), 0), HasSubstr("state lacks memory"));
  inputs.codes[0] = 4;
  EXPECT_THAT(prefill(shape, state.View(), 0), HasSubstr("codes[0,0] is 4, expected 0 to 3"));
}

TEST(VqAttentionCheckTest, NamesASkipMassThatIsNoShare) {
  const auto cpu = MakeTestDevice("cpu");
  const VqShape shape{1, 4, 3, 2, DType::kFloat32};
  VqDecodeAttentionArgs args{shape,
                             {nullptr, {0}},
                             {nullptr, {0}},
                             {nullptr, {0, 1, 4}},
                             {nullptr, {0, 1, 3}},
                             {nullptr, {0, 1}},
                             {nullptr, {0, 1, 2}},
                             {nullptr, {0, 1, 2}}};
  for (const float skip_mass : {-0.1F, 1.0F, NAN}) {
    args.skip_mass = skip_mass;
    EXPECT_THAT(std::string(VqDecodeAttention(*cpu, args).message()),
                HasSubstr("expected 0 to less than 1"));
  }
}

}  // namespace
}  // namespace tvq
