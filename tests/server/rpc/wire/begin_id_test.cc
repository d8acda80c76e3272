// The id that begins a context, in the requests that bring text.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <optional>

#include "server/rpc/wire/convert.h"
#include "server/rpc/wire/to_proto.h"
#include "tests/server/message.h"
#include "tests/server/rpc/wire/idle_model.h"

namespace tvq {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int32_t kBos = '^';

ServedModel BeginningModel(int64_t max_position = 0) {
  return MakeModel("m", 1, {.bos_token_id = kBos, .add_bos_token = true}, max_position);
}

TEST(BeginIdTest, StandsBeforeTextThatBeginsAContext) {
  v1::GenerateRequest message;
  const auto prompt = [&](const ContextStart& start = {}) {
    const auto request = ToRequest(message, BeginningModel(), {}, start);
    EXPECT_TRUE(request.ok()) << request.status();
    return request.ok() ? request->prompt : std::vector<int32_t>();
  };
  const ContextStart without{.of = ContextStart::kSession, .add_special_tokens = false};
  message.set_text("ab");
  EXPECT_THAT(prompt(), ElementsAre(kBos, 'a', 'b'));
  EXPECT_THAT(prompt({ContextStart::kUpload, 0}), ElementsAre(kBos, 'a', 'b'));
  EXPECT_THAT(prompt({ContextStart::kSession, 0}), ElementsAre(kBos, 'a', 'b'));
  EXPECT_THAT(prompt({ContextStart::kSession, 1}), ElementsAre('a', 'b'));
  EXPECT_THAT(prompt(without), ElementsAre('a', 'b'));
  message.set_add_special_tokens(true);
  EXPECT_THAT(prompt(without), ElementsAre(kBos, 'a', 'b'));
  message.set_add_special_tokens(false);
  EXPECT_THAT(prompt(), ElementsAre('a', 'b'));
}

TEST(BeginIdTest, IsNotDoubledAndNotGivenToTokenIds) {
  v1::GenerateRequest message;
  message.set_text("^a");
  EXPECT_THAT(ToRequest(message, BeginningModel(), {})->prompt, ElementsAre(kBos, 'a'));
  message.mutable_token_ids()->add_ids('a');
  EXPECT_THAT(ToRequest(message, BeginningModel(), {})->prompt, ElementsAre('a'));
}

TEST(BeginIdTest, IsAnEmptyPromptOfAnEmptySession) {
  v1::GenerateRequest message;
  const ContextStart empty{ContextStart::kSession, 0};
  EXPECT_THAT(ToRequest(message, BeginningModel(), {}, empty)->prompt, ElementsAre(kBos));
  message.set_text("");
  EXPECT_THAT(ToRequest(message, BeginningModel(), {}, empty)->prompt, ElementsAre(kBos));
  message.set_add_special_tokens(false);
  EXPECT_THAT(Message(ToRequest(message, BeginningModel(), {}, empty).status()),
              HasSubstr("text: is empty"));
  EXPECT_THAT(ToRequest(message, BeginningModel(), {})->prompt, ElementsAre(kBos))
      << "without a session something has to stand there";
}

TEST(BeginIdTest, CountsWherePromptsAreLimited) {
  v1::GenerateRequest message;
  message.set_text("abc");
  EXPECT_TRUE(ToRequest(message, BeginningModel(), {.max_prompt_tokens = 4}).ok());
  EXPECT_THAT(Message(ToRequest(message, BeginningModel(), {.max_prompt_tokens = 3}).status()),
              HasSubstr("text: has 4 tokens, must have at most 3"));
  message.mutable_sampling()->set_limit_to_context(true);
  EXPECT_EQ(ToRequest(message, BeginningModel(/*max_position=*/10), {})->sampling.max_tokens, 6);
  message.set_add_special_tokens(false);
  EXPECT_EQ(ToRequest(message, BeginningModel(/*max_position=*/10), {})->sampling.max_tokens, 7);
}

TEST(BeginIdTest, OfWhatIsAppended) {
  v1::AppendSessionRequest message;
  const ContextStart empty{ContextStart::kSession, 0}, later{ContextStart::kSession, 1};
  EXPECT_THAT(Message(ToRequest(message, BeginningModel(), {}, empty).status()),
              HasSubstr("text: is empty"));
  message.set_text("");
  EXPECT_THAT(ToRequest(message, BeginningModel(), {}, empty)->prompt, ElementsAre(kBos));
  EXPECT_THAT(Message(ToRequest(message, BeginningModel(), {}, later).status()),
              HasSubstr("text: is empty"));
  message.set_text("a");
  EXPECT_THAT(ToRequest(message, BeginningModel(), {}, empty)->prompt, ElementsAre(kBos, 'a'));
  EXPECT_THAT(ToRequest(message, BeginningModel(), {}, later)->prompt, ElementsAre('a'));
  message.set_add_special_tokens(false);
  EXPECT_THAT(ToRequest(message, BeginningModel(), {}, empty)->prompt, ElementsAre('a'));
}

TEST(BeginIdTest, OfWhatIsScored) {
  v1::ScoreRequest message;
  message.set_text("a");
  const auto input = ToRequest(message, BeginningModel(), {});
  ASSERT_TRUE(input.ok()) << input.status();
  EXPECT_THAT(input->request.prompt, ElementsAre(kBos, 'a'));
  EXPECT_EQ(input->before, 1);
  const auto later = ToRequest(message, BeginningModel(), {}, {ContextStart::kSession, 1});
  EXPECT_THAT(later->request.prompt, ElementsAre('a'));
  EXPECT_EQ(later->before, 0);
  message.set_prepend_eos(true);
  EXPECT_THAT(ToRequest(message, BeginningModel(), {})->request.prompt, ElementsAre(1, 'a'));
  message.set_prepend_eos(false);
  message.set_add_special_tokens(false);
  EXPECT_EQ(ToRequest(message, BeginningModel(), {})->before, 0);
  message.clear_add_special_tokens();
  message.set_text("^a");
  EXPECT_EQ(ToRequest(message, BeginningModel(), {})->before, 0) << "it is scored with the text";
}

TEST(BeginIdTest, ModelsSayWhetherTheyAddIt) {
  v1::Model message;
  ToProto(BeginningModel(), {}, {}, &message);
  EXPECT_EQ(message.bos_token_id(), kBos);
  EXPECT_TRUE(message.add_bos_token());
  v1::Model other;
  ToProto(MakeModel("m", 1), {}, {}, &other);
  EXPECT_FALSE(other.has_bos_token_id());
  EXPECT_FALSE(other.add_bos_token());
}

}  // namespace
}  // namespace tvq
