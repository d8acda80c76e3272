#include "server/rpc/wire/sampling.h"

#include <gmock/gmock.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "base/refusal.h"
#include "server/rpc/wire/field_ranges.h"
#include "tvq/v1/field.pb.h"

namespace tvq {
namespace {

using google::protobuf::FieldDescriptor;
using testing::HasSubstr;

struct Case {
  std::function<void(v1::SamplingParams&)> change;
  std::string message;  // empty: the request is right
};

TEST(ToSamplingTest, NumbersHaveTheRangesOfTheProto) {
  const std::vector<Case> cases = {
      {[](auto&) {}, ""},
      {[](auto& p) { p.set_temperature(0); }, ""},
      {[](auto& p) { p.set_temperature(-1); },
       "temperature: value is -1, must be a finite number >= 0"},
      {[](auto& p) { p.set_temperature(NAN); }, "temperature: value is nan"},
      {[](auto& p) { p.set_temperature(INFINITY); }, "temperature: value is inf"},
      {[](auto& p) { p.set_top_k(-1); }, ""},
      {[](auto& p) { p.set_top_k(-2); }, "top_k: value is -2, must be at least -1"},
      {[](auto& p) { p.set_top_p(0); }, "top_p: value is 0, must be in (0, 1]"},
      {[](auto& p) { p.set_top_p(std::numeric_limits<float>::denorm_min()); }, ""},
      {[](auto& p) { p.set_top_p(1.5); }, "top_p: value is 1.5"},
      {[](auto& p) { p.set_min_p(-0.5); }, "min_p: value is -0.5, must be in [0, 1]"},
      {[](auto& p) { p.set_min_p(NAN); }, "min_p: value is nan"},
      {[](auto& p) { p.set_repetition_penalty(0); }, "repetition_penalty: value is 0"},
      {[](auto& p) { p.set_repetition_penalty(NAN); }, "repetition_penalty: value is nan"},
      {[](auto& p) { p.set_repetition_penalty(1e-38F); }, ", must be in [1e-09, 1e+09]"},
      {[](auto& p) { p.set_repetition_penalty(1.1e9F); }, "repetition_penalty: value is 1.1e+09"},
      {[](auto& p) { p.set_repetition_penalty(1e-9F); }, ""},
      {[](auto& p) { p.set_repetition_penalty(1e9F); }, ""},
      {[](auto& p) { p.set_presence_penalty(2.5); }, "presence_penalty: value is 2.5"},
      {[](auto& p) { p.set_presence_penalty(-2); }, ""},
      {[](auto& p) { p.set_frequency_penalty(-3); }, "frequency_penalty: value is -3"},
      {[](auto& p) { p.set_max_tokens(0); }, ""},
      {[](auto& p) { p.set_max_tokens(-1); }, "max_tokens: value is -1, must be at least 0"},
      {[](auto& p) { p.set_min_tokens(-1); }, "min_tokens: value is -1"},
      {[](auto& p) { p.set_n(0); }, "n: value is 0, must be in [1, 128]"},
      {[](auto& p) { p.set_n(129); }, "n: value is 129"},
      {[](auto& p) { p.set_logprobs(20); }, ""},
      {[](auto& p) { p.set_logprobs(21); }, "logprobs: value is 21, must be in [0, 20]"},
      {[](auto& p) { p.set_prompt_logprobs(-1); }, "prompt_logprobs: value is -1"},
  };
  for (const Case& c : cases) {
    v1::SamplingParams message;
    c.change(message);
    const absl::Status status = ToSampling(message, {}).status();
    if (c.message.empty()) {
      EXPECT_TRUE(status.ok()) << status;
      continue;
    }
    EXPECT_THAT(std::string(MessageOf(status)), HasSubstr(c.message));
    EXPECT_EQ(RefusalOf(status).reason, Reason::kValueInvalid);
    EXPECT_EQ(status.message().find(RefusalOf(status).field), 0U);
  }
}

// What lies a little beyond an end is refused, and what lies at it is not.
TEST(ToSamplingTest, EveryRangeIsChecked) {
  const auto& type = *v1::SamplingParams::descriptor();
  const auto code = [](const FieldDescriptor& field, double value) {
    v1::SamplingParams message;
    if (field.cpp_type() == FieldDescriptor::CPPTYPE_FLOAT) {
      message.GetReflection()->SetFloat(&message, &field, static_cast<float>(value));
    } else {
      message.GetReflection()->SetInt32(&message, &field, static_cast<int32_t>(value));
    }
    return ToSampling(message, {}).status().code();
  };
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor& field = *type.field(i);
    const v1::Field& told = field.options().GetExtension(v1::field);
    const bool whole = field.cpp_type() != FieldDescriptor::CPPTYPE_FLOAT;
    const auto step = [&](double end) { return whole ? 1 : std::max(1e-10, 1e-6 * std::abs(end)); };
    if (told.has_min()) {
      EXPECT_EQ(code(field, told.min() - step(told.min())), absl::StatusCode::kInvalidArgument)
          << field.name();
      EXPECT_EQ(code(field, told.min()),
                told.above_min() ? absl::StatusCode::kInvalidArgument : absl::StatusCode::kOk)
          << field.name();
    }
    if (told.has_max()) {
      EXPECT_EQ(code(field, told.max() + step(told.max())), absl::StatusCode::kInvalidArgument)
          << field.name();
      EXPECT_EQ(code(field, told.max()), absl::StatusCode::kOk) << field.name();
    }
  }
}

TEST(ToSamplingTest, RequestsGoBeforeTheModelsDefaults) {
  v1::SamplingParams message;
  message.set_top_p(0.5);
  const auto params = ToSampling(message, {.numbers = {{"top_p", 0.9}, {"top_k", 7}}});
  ASSERT_TRUE(params.ok()) << params.status();
  EXPECT_EQ(params->top_p, 0.5F);
  EXPECT_EQ(params->top_k, 7);
  EXPECT_EQ(params->min_p, 0);
}

TEST(DefaultFieldsTest, HaveTheProtosNamesAndRanges) {
  int seen = 0;
  for (const DefaultField& field : DefaultFields()) {
    if (field.name != "max_tokens" && field.name != "top_p") continue;
    ++seen;
    const bool is_limit = field.name == "max_tokens";
    EXPECT_EQ(field.names, is_limit ? (std::vector<std::string>{"max_new_tokens", "max_tokens"})
                                    : std::vector<std::string>{"top_p"});
    EXPECT_EQ(field.whole, is_limit);
    EXPECT_EQ(field.min, is_limit ? 1 : 1e-9);
    EXPECT_EQ(field.max, is_limit ? 2147483647.0 : 1);
  }
  EXPECT_EQ(seen, 2);
}

}  // namespace
}  // namespace tvq
