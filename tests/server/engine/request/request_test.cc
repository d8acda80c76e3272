#include "server/engine/request/request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "tests/server/engine/fake_model.h"

namespace tvq {
namespace {

using ::testing::HasSubstr;

struct Case {
  std::function<void(SamplingParams&)> change;
  std::string message;  // part of the error; empty: it is valid
};

TEST(ValidateTest, SamplingParams) {
  const FakeModel model;
  const std::vector<Case> cases = {
      {[](auto&) {}, ""},
      {[](auto& p) { p.max_tokens = 0; }, ""},
      {[](auto& p) { p.min_tokens = 17; }, "min_tokens: value is 17, must be in [0, max_tokens"},
      {[](auto& p) { p.n = 2, p.temperature = 0; }, "n: value is 2, must be 1 when temperature"},
      {[](auto& p) { p.n = 2, p.temperature = 9e-6F; },
       "must be 1 when temperature is below 1e-05"},
      {[](auto& p) { p.n = 2, p.temperature = 1e-5F; }, ""},
      {[](auto& p) { p.stop = {"ok", ""}; }, "stop[1]: has 0 bytes"},
      {[](auto& p) { p.stop = {std::string(1025, 'x')}; }, "stop[0]: has 1025 bytes"},
      {[](auto& p) { p.stop.assign(65, "x"); }, "stop: has 65 strings, must be at most 64"},
      {[](auto& p) { p.stop_token_ids = {5, 259}; }, "stop_token_ids[1]: token id is 259"},
      {[](auto& p) { p.stop_token_ids.assign(260, 5); }, "stop_token_ids: has 260 entries"},
      {[](auto& p) { p.logit_bias.assign(260, {5, 1}); }, "logit_bias: has 260 entries"},
      {[](auto& p) { p.allowed_token_ids = {-1}; }, "allowed_token_ids[0]: token id is -1"},
      {[](auto& p) { p.logit_bias = {{3, 1}, {900, 1}}; }, "logit_bias.900: token id is 900"},
      {[](auto& p) { p.logit_bias = {{3, 101}}; }, "logit_bias.3: value is 101"},
      {[](auto& p) { p.allowed_token_ids = {kEos}; }, ""},
      {[](auto& p) { p.allowed_token_ids = {kEos}, p.min_tokens = 1; }, "allowed_token_ids: every"},
  };
  for (const Case& c : cases) {
    SamplingParams params;
    c.change(params);
    const absl::Status status = Validate(params, model.info());
    if (c.message.empty()) {
      EXPECT_TRUE(status.ok()) << status;
    } else {
      EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << c.message;
      EXPECT_THAT(std::string(status.message()), HasSubstr(c.message));
    }
  }
}

std::string Message(const Request& request, const Model& model) {
  const absl::Status status = Validate(request, model.info());
  EXPECT_TRUE(status.ok() || absl::IsInvalidArgument(status)) << status;
  return std::string(status.message());
}

TEST(ValidateTest, Prompt) {
  const FakeModel model;
  EXPECT_THAT(Message({}, model), HasSubstr("prompt: is empty"));
  EXPECT_THAT(Message({.prompt = {4, 4, 259}}, model),
              HasSubstr("prompt[2]: token id is 259, must be in [0, 259)"));
  EXPECT_THAT(Message({.prompt = {-7}}, model), HasSubstr("prompt[0]: token id is -7"));
  EXPECT_EQ(Message({.prompt = {4}}, model), "");
}

TEST(ValidateTest, ContextLength) {
  const FakeModel model({.max_position = 20});
  Request request{.prompt = std::vector<int32_t>(10, 4), .sampling = {.max_tokens = 10}};
  EXPECT_EQ(Message(request, model), "");
  request.sampling.max_tokens = 11;
  const std::string message = Message(request, model);
  EXPECT_THAT(message, HasSubstr("has 10 tokens, and max_tokens is 11"));
  EXPECT_THAT(message, HasSubstr("at most 20"));
  request.sampling.min_tokens = 11;  // to which a default was raised
  EXPECT_THAT(Message(request, model), HasSubstr("has 10 tokens, and min_tokens is 11"));
  request.sampling.min_tokens = 0;
  request.purpose = Purpose::kScore;
  EXPECT_EQ(Message(request, model), "");
  request.prompt.resize(21, 4);
  EXPECT_THAT(Message(request, model), HasSubstr("prompt: has 21 tokens, must be at most 20"));
}

TEST(ValidateTest, MessagesUseTheClientsNames) {
  const FakeModel model({.max_position = 3});
  Request request{.purpose = Purpose::kScore, .prompt = {4, 4, 4, 4}, .prompt_field = "text"};
  EXPECT_THAT(Message(request, model), HasSubstr("text: has 4 tokens, must be at most 3"));
  request.purpose = Purpose::kGenerate;
  EXPECT_THAT(Message(request, model), HasSubstr("text: has 4 tokens, and max_tokens is 16"));
}

}  // namespace
}  // namespace tvq
