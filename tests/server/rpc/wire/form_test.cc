#include "server/rpc/wire/form.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/refusal.h"
#include "tests/server/message.h"
#include "tests/server/rpc/wire/idle_model.h"

namespace tvq {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr int32_t kEnd = 7;

ServedModel WithGrammars() {
  ServedModel model = MakeModel("m", kEnd);
  model.grammars = std::make_shared<Grammars>(model.model->tokenizer(), std::vector{kEnd});
  return model;
}

// Whether a text can be all of an output.
bool Allows(const Grammar& grammar, const std::string& text) {
  GrammarMatcher matcher = *grammar.Begin();
  std::vector<uint32_t> mask(static_cast<size_t>(grammar.mask_words()));
  const auto may_be = [&](int32_t id) { return matcher.Mask(mask).ok() && MaskHas(mask, id); };
  for (const char byte : text) {
    const int32_t id = static_cast<unsigned char>(byte);
    if (!may_be(id) || !matcher.Accept(id).ok()) return false;
  }
  return may_be(kEnd);
}

using Change = std::function<void(v1::SamplingParams&)>;

absl::StatusOr<std::shared_ptr<const Grammar>> Read(const Change& change,
                                                    const ServedModel& model = WithGrammars()) {
  v1::SamplingParams sampling;
  change(sampling);
  return ToGrammar(sampling, model);
}

TEST(FormTest, NothingIsAsked) {
  const auto grammar = Read([](auto&) {});
  ASSERT_TRUE(grammar.ok());
  EXPECT_EQ(*grammar, nullptr);
}

TEST(FormTest, EachFormIsAGrammar) {
  const struct {
    Change change;
    const char* allowed;
    const char* forbidden;
  } cases[] = {
      {[](auto& p) { p.set_json_schema(R"({"enum": [1, "a"]})"); }, "\"a\"", "2"},
      {[](auto& p) { p.set_regex("[ab]+"); }, "abba", "abc"},
      {[](auto& p) { p.set_lark("start: \"a\" start? \"b\""); }, "aabb", "aab"},
      {[](auto& p) {
         p.add_choice("yes \"sir\"\n");
         p.add_choice("nö");
       },
       "nö", "no"},
      {[](auto& p) { p.add_choice("yes \"sir\"\n"); }, "yes \"sir\"\n", "yes "},
      {[](auto& p) {
         p.add_choice("\x7f/\\");
         for (int i = 0; i < 5000; ++i) p.add_choice(absl::StrCat("number ", i));
       },
       "\x7f/\\", "number 5000"},
      {[](auto& p) {
         for (int i = 0; i < 5000; ++i) p.add_choice(absl::StrCat("number ", i));
       },
       "number 4321", "number"},
  };
  for (const auto& [change, allowed, forbidden] : cases) {
    const auto grammar = Read(change);
    ASSERT_TRUE(grammar.ok()) << grammar.status();
    EXPECT_TRUE(Allows(**grammar, allowed)) << allowed;
    EXPECT_FALSE(Allows(**grammar, forbidden)) << forbidden;
  }
}

TEST(FormTest, ErrorsNameTheField) {
  const struct {
    Change change;
    const char* begin;
  } cases[] = {
      {[](auto& p) { p.set_json_schema("{"); }, "json_schema: is not JSON"},
      {[](auto& p) { p.set_regex("("); }, "regex: "},
      {[](auto& p) { p.set_lark("start: nothing"); }, "lark: "},
      {[](auto& p) {
         p.add_choice("a");
         p.add_choice("");
       },
       "choice[1]: must not be empty"},
      {[](auto& p) {
         p.add_choice("a");
         p.set_regex("a");
       },
       "choice: must be left out"},
      {[](auto& p) {
         p.set_regex("a");
         p.set_ignore_eos(true);
       },
       "ignore_eos: must be false where regex"},
      {[](auto& p) {
         p.add_choice("a");
         p.add_allowed_token_ids('a');
       },
       "allowed_token_ids: must be left out where choice"},
      {[](auto& p) { p.set_regex(std::string((256 << 10) + 1, 'a')); }, "regex: has 262145 bytes"},
  };
  for (const auto& [change, begin] : cases) {
    const auto grammar = Read(change);
    EXPECT_EQ(grammar.status().code(), absl::StatusCode::kInvalidArgument) << begin;
    EXPECT_THAT(Message(grammar.status()), StartsWith(begin));
  }
}

TEST(FormTest, AModelWithoutAnEndHasNone) {
  const auto refused = Read([](auto& p) { p.set_regex("a"); }, MakeModel("m", std::nullopt));
  EXPECT_EQ(RefusalOf(refused.status()).reason, Reason::kModelUnfit);
  EXPECT_THAT(Message(refused.status()), HasSubstr("regex: must be left out: the model \"m\""));
}

}  // namespace
}  // namespace tvq
