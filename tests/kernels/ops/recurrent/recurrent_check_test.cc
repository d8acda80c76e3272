// What the recurrent ops refuse, and how they say it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "kernels/ops/recurrent/gated_delta_rule.h"
#include "kernels/ops/recurrent/mamba_scan.h"
#include "kernels/ops/recurrent/recent_inputs.h"
#include "kernels/ops/recurrent/rwkv_time_mix.h"
#include "tests/kernels/ops/op_testing.h"

namespace tvq {
namespace {

using ::testing::HasSubstr;

// Memory for any argument: shapes are checked before it is touched.
class RecurrentCheckTest : public ::testing::Test {
 protected:
  float* some() { return memory_.data(); }
  RecurrentState state() { return {.matrix = some(), .inputs = some()}; }

  std::vector<float> memory_ = std::vector<float>(4096);
  std::unique_ptr<Device> cpu_ = MakeTestDevice("cpu");
};

TEST_F(RecurrentCheckTest, TokenShift) {
  const auto message = [&](const auto& change) {
    TokenShiftArgs args{.sessions = {{}, state()},
                        .x = {some(), {2, 3}},
                        .mix = {some(), {4, 3}},
                        .out = {some(), {4, 2, 3}}};
    change(args);
    return std::string(TokenShift(*cpu_, args).message());
  };
  EXPECT_EQ(message([](TokenShiftArgs&) {}), "");
  EXPECT_THAT(message([](TokenShiftArgs& a) { a.mix.shape = {4, 2}; }),
              HasSubstr("TokenShift: mix is [4,2], expected [4,3]"));
  EXPECT_THAT(message([](TokenShiftArgs& a) { a.out.shape = {2, 4, 3}; }),
              HasSubstr("TokenShift: out is [2,4,3], expected [4,2,3]"));
  EXPECT_THAT(message([](TokenShiftArgs& a) { a.sessions.state = {}; }),
              HasSubstr("TokenShift: a state lacks memory"));
  // It needs no matrix.
  EXPECT_EQ(message([](TokenShiftArgs& a) { a.sessions.state.matrix = nullptr; }), "");
  const std::vector<RecurrentState> three(3);
  EXPECT_THAT(message([&](TokenShiftArgs& a) { a.sessions.states = {three.data(), {3}}; }),
              HasSubstr("TokenShift: states is [3], expected [2]"));
}

TEST_F(RecurrentCheckTest, CausalConvolution) {
  const auto message = [&](const auto& change) {
    CausalConvolutionArgs args{.sessions = {{}, state()},
                               .x = {some(), {2, 10}},
                               .first = 3,
                               .weight = {some(), {4, 7}},
                               .bias = {some(), {7}},
                               .out = {some(), {2, 7}}};
    change(args);
    return std::string(CausalConvolution(*cpu_, args).message());
  };
  using Args = CausalConvolutionArgs;
  EXPECT_EQ(message([](Args&) {}), "");
  EXPECT_EQ(message([](Args& a) { a.bias = {}; }), "");
  EXPECT_THAT(message([](Args& a) { a.weight.shape = {1, 7}; }),
              HasSubstr("weight has 1 rows, expected 2 or more"));
  for (const int64_t first : {-1, 4}) {
    EXPECT_THAT(message([&](Args& a) { a.first = first; }),
                HasSubstr(absl::StrCat("first is ", first,
                                       ", expected 0 to 3: x has 10 columns, weight 7")));
  }
  EXPECT_THAT(message([](Args& a) { a.bias.shape = {6}; }), HasSubstr("bias is [6], expected [7]"));
  EXPECT_THAT(message([](Args& a) { a.out.shape = {2, 10}; }),
              HasSubstr("out is [2,10], expected [2,7]"));
  EXPECT_THAT(message([](Args& a) { a.sessions.state = {}; }), HasSubstr("a state lacks memory"));
}

TEST_F(RecurrentCheckTest, RwkvTimeMix) {
  using Args = RwkvTimeMixArgs;
  const auto message = [&](const auto& change) {
    const Tensor<const float, 3> rows{some(), {2, 3, 4}};
    const Matrix<const float> weights{some(), {3, 4}};
    Args args{.sessions = {{}, state()},
              .r = rows,
              .k = rows,
              .v = rows,
              .decay = rows,
              .rate = rows,
              .gate = rows,
              .v_first = rows,
              .v_mix = rows,
              .k_k = weights,
              .k_a = weights,
              .r_k = weights,
              .gain = weights,
              .bias = weights,
              .epsilon = 1,
              .out = {some(), {2, 3, 4}}};
    change(args);
    return std::string(RwkvTimeMix(*cpu_, args).message());
  };
  for (Tensor<const float, 3> Args::* rows :
       {&Args::k, &Args::v, &Args::decay, &Args::rate, &Args::gate, &Args::v_first, &Args::v_mix}) {
    EXPECT_THAT(message([&](Args& a) { (a.*rows).shape = {2, 4, 3}; }),
                HasSubstr("is [2,4,3], expected [2,3,4]"));
  }
  for (Matrix<const float> Args::* weights :
       {&Args::k_k, &Args::k_a, &Args::r_k, &Args::gain, &Args::bias}) {
    EXPECT_THAT(message([&](Args& a) { (a.*weights).shape = {4, 3}; }),
                HasSubstr("is [4,3], expected [3,4]"));
  }
  for (Tensor<const float, 3> Args::* one : {&Args::v_first, &Args::v_mix}) {
    EXPECT_THAT(message([&](Args& a) { a.*one = {}; }),
                HasSubstr("has one of v_first and v_mix, expected both or neither"));
  }
  EXPECT_THAT(message([](Args& a) { a.out.shape = {1, 3, 4}; }),
              HasSubstr("out is [1,3,4], expected [2,3,4]"));
  EXPECT_THAT(message([](Args& a) { a.sessions.state.matrix = nullptr; }),
              HasSubstr("RwkvTimeMix: a state lacks memory"));
}

TEST_F(RecurrentCheckTest, GatedDeltaRule) {
  using Args = GatedDeltaRuleArgs;
  const auto message = [&](const auto& change) {
    const GatedDeltaShape shape{2, 4, 3, 5};
    Args args{.sessions = {{}, state()},
              .shape = shape,
              .projected = {some(), {2, shape.projected()}},
              .convolved = {some(), {2, shape.convolved()}},
              .rate = {some(), {4}},
              .decay_bias = {some(), {4}},
              .gain = {some(), {5}},
              .epsilon = 1,
              .out = {some(), {2, 4, 5}}};
    change(args);
    return std::string(GatedDeltaRule(*cpu_, args).message());
  };
  EXPECT_EQ(message([](Args&) {}), "");
  constexpr const char* kSizes = "shape has sizes of 0, or key heads that do not divide its heads";
  EXPECT_THAT(message([](Args& a) { a.shape.key_heads = 3; }), HasSubstr(kSizes));
  EXPECT_THAT(message([](Args& a) { a.shape.value = 0; }), HasSubstr(kSizes));
  EXPECT_THAT(message([](Args& a) { a.projected.shape[1] = 32; }),
              HasSubstr("projected is [2,32], expected [2,60]"));
  EXPECT_THAT(message([](Args& a) { a.convolved.shape[0] = 3; }),
              HasSubstr("convolved is [3,32], expected [2,32]"));
  EXPECT_THAT(message([](Args& a) { a.rate.shape = {2}; }), HasSubstr("rate is [2], expected [4]"));
  EXPECT_THAT(message([](Args& a) { a.decay_bias.shape = {2}; }),
              HasSubstr("decay_bias is [2], expected [4]"));
  EXPECT_THAT(message([](Args& a) { a.gain.shape = {4}; }), HasSubstr("gain is [4], expected [5]"));
  EXPECT_THAT(message([](Args& a) { a.out.shape = {2, 5, 4}; }),
              HasSubstr("out is [2,5,4], expected [2,4,5]"));
  EXPECT_THAT(message([](Args& a) { a.sessions.state.inputs = nullptr; }),
              HasSubstr("GatedDeltaRule: a state lacks memory"));
}

TEST_F(RecurrentCheckTest, MambaScan) {
  using Args = MambaScanArgs;
  const auto status = [&](Device& device, int64_t key, const auto& change) {
    const MambaShape shape{2, 4, key, 5};
    Args args{.sessions = {{}, state()},
              .shape = shape,
              .projected = {some(), {2, shape.projected()}},
              .convolved = {some(), {2, shape.convolved()}},
              .rate = {some(), {4}},
              .step_bias = {some(), {4}},
              .skip = {some(), {4}},
              .most_step = 1,
              .out = {some(), {2, 4, 5}}};
    change(args);
    return MambaScan(device, args);
  };
  const auto message = [&](const auto& change) {
    return std::string(status(*cpu_, 3, change).message());
  };
  EXPECT_EQ(message([](Args&) {}), "");
  constexpr const char* kSizes = "shape has sizes of 0, or groups that do not divide its heads";
  EXPECT_THAT(message([](Args& a) { a.shape.groups = 3; }), HasSubstr(kSizes));
  EXPECT_THAT(message([](Args& a) { a.shape.key = 0; }), HasSubstr(kSizes));
  EXPECT_THAT(message([](Args& a) { a.projected.shape[1] = 32; }),
              HasSubstr("projected is [2,32], expected [2,56]"));
  EXPECT_THAT(message([](Args& a) { a.convolved.shape[1] = 20; }),
              HasSubstr("convolved is [2,20], expected [2,32]"));
  EXPECT_THAT(message([](Args& a) { a.rate.shape = {2}; }), HasSubstr("rate is [2], expected [4]"));
  EXPECT_THAT(message([](Args& a) { a.step_bias.shape = {2}; }),
              HasSubstr("step_bias is [2], expected [4]"));
  EXPECT_THAT(message([](Args& a) { a.skip.shape = {2}; }), HasSubstr("skip is [2], expected [4]"));
  EXPECT_THAT(message([](Args& a) { a.out.shape = {2, 5, 4}; }),
              HasSubstr("out is [2,5,4], expected [2,4,5]"));
  RecurrentState half = state();
  half.matrix = nullptr;
  const std::vector<RecurrentState> states{{}, half};
  EXPECT_THAT(message([&](Args& a) { a.sessions.states = {states.data(), {2}}; }),
              HasSubstr("MambaScan: a state lacks memory"));
  const auto cuda = MakeCudaStandIn("forwards");
  EXPECT_EQ(status(*cuda, 1025, [](Args&) {}).ToString(),
            "UNIMPLEMENTED: MambaScan: the backend 'cuda' takes keys of up to 1024 numbers, not of "
            "1025");
}

}  // namespace
}  // namespace tvq
