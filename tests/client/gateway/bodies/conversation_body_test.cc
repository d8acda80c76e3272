#include "client/gateway/bodies/conversation_body.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "base/refusal.h"
#include "client/gateway/bodies/chat_request.h"
#include "client/gateway/bodies/session_requests.h"

namespace tvq::gateway {
namespace {

using ::testing::HasSubstr;

constexpr char kHello[] = R"("messages":[{"role":"user","content":"hello"}])";

v1::Model OwnModel() {
  v1::Model model;
  model.set_name("own");
  model.add_conversation_templates("default");
  model.add_conversation_templates("rag");
  return model;
}

v1::Model TextModel() {
  v1::Model model;
  model.set_name("text");
  model.mutable_chat_template()->mutable_user()->set_prefix("U:");
  model.mutable_chat_template()->mutable_assistant()->set_prefix("A:");
  return model;
}

absl::StatusOr<v1::GenerateRequest> Call(const std::string& fields, const v1::Model& model) {
  auto request = ParseChat(absl::StrCat("{", fields, "}"), "");
  if (!request.ok()) return request.status();
  if (auto status = ApplyTemplate(model, &*request); !status.ok()) return status;
  return request->call;
}

std::string Wrong(const std::string& fields, const v1::Model& model) {
  const auto call = Call(fields, model);
  EXPECT_FALSE(call.ok());
  return std::string(call.status().message());
}

TEST(ConversationBodyTest, IsPassedOnAsItStands) {
  const auto call = Call(
      R"("messages":[{"role":"tool","tool_call_id":"1","name":"f","content":null,"z":1.50,"a":{"y":1,"x":2}}],
         "tools":[{"type":"function","function":{"name":"f","parameters":{"z":1,"a":2}}}],
         "chat_template_kwargs":{"enable_thinking":false,"b":1,"a":2},"add_generation_prompt":false)",
      OwnModel());
  ASSERT_TRUE(call.ok()) << call.status();
  EXPECT_EQ(call->model(), "own");
  const v1::Conversation& given = call->conversation();
  EXPECT_EQ(given.messages(),
            R"([{"role":"tool","tool_call_id":"1","name":"f","content":null,"z":1.50,)"
            R"("a":{"y":1,"x":2}}])");
  EXPECT_EQ(given.tools(),
            R"([{"type":"function","function":{"name":"f","parameters":{"z":1,"a":2}}}])");
  EXPECT_EQ(given.template_kwargs(), R"({"enable_thinking":false,"b":1,"a":2})");
  EXPECT_TRUE(given.has_add_generation_prompt() && !given.add_generation_prompt());
  EXPECT_FALSE(given.continue_final_message());
  EXPECT_EQ(call->sampling().stop_size(), 0);

  const auto plain = Call(absl::StrCat(kHello, R"(,"tools":[],"chat_template_kwargs":null,)"
                                               R"("continue_final_message":true)"),
                          OwnModel());
  ASSERT_TRUE(plain.ok()) << plain.status();
  EXPECT_EQ(plain->conversation().tools(), "");
  EXPECT_EQ(plain->conversation().template_kwargs(), "");
  EXPECT_FALSE(plain->conversation().has_add_generation_prompt());
  EXPECT_TRUE(plain->conversation().continue_final_message());
}

TEST(ConversationBodyTest, ContentsAndArgumentsAreAsTemplatesKnowThem) {
  const auto call = Call(
      R"("messages":[{"role":"user","content":[{"type":"text","text":"a\"b"},{"type":"text","text":"c"}]},
         {"role":"assistant","tool_calls":[{"id":"1","function":{"name":"f","arguments":"{\"z\": 1, \"a\": 2}"}},
                                           {"function":{"arguments":"no object"}}, {"function":{"arguments":{"k":1}}}]}])",
      OwnModel());
  ASSERT_TRUE(call.ok()) << call.status();
  EXPECT_EQ(call->conversation().messages(),
            R"([{"role":"user","content":"a\"b\nc"},{"role":"assistant","tool_calls":[)"
            R"({"id":"1","function":{"name":"f","arguments":{"z": 1, "a": 2}}},)"
            R"({"function":{"arguments":"no object"}},{"function":{"arguments":{"k":1}}}]}])");
}

// What the server would refuse as nested too deep.
TEST(ConversationBodyTest, DeepArgumentsStayAText) {
  const auto written = [](const std::string& arguments) {
    const auto call =
        Call(absl::StrCat(R"("messages":[{"role":"assistant","content":"x","tool_calls":)"
                          R"([{"function":{"arguments":"{\"a\":)",
                          arguments, R"(}"}}]}])"),
             OwnModel());
    return call.ok() ? call->conversation().messages() : std::string(call.status().message());
  };
  EXPECT_THAT(written("[[1]]"), HasSubstr(R"("arguments":{"a":[[1]]}})"));
  const std::string deep = std::string(100, '[') + std::string(100, ']');
  EXPECT_THAT(written(deep), HasSubstr(R"("arguments":"{\"a\":[[)"));
}

TEST(ConversationBodyTest, PartsAreJoinedAlikeForBothKindsOfTemplates) {
  const std::string fields =
      R"("messages":[{"role":"user","content":[{"type":"text","text":"ab"},{"type":"text","text":"c"}]}])";
  const auto own = Call(fields, OwnModel()), text = Call(fields, TextModel());
  ASSERT_TRUE(own.ok() && text.ok());
  EXPECT_EQ(own->conversation().messages(), R"([{"role":"user","content":"ab\nc"}])");
  EXPECT_EQ(text->text(), "U:ab\ncA:");
}

TEST(ConversationBodyTest, AConversationIsMovedIntoTheCall) {
  const std::string text(100'000, 'x');
  auto request =
      ParseChat(absl::StrCat(R"({"messages":[{"role":"user","content":")", text, R"("}]})"), "");
  ASSERT_TRUE(request.ok()) << request.status();
  const char* const messages = request->conversation.own.messages().data();
  ASSERT_TRUE(ApplyTemplate(OwnModel(), &*request).ok());
  EXPECT_EQ(request->call.conversation().messages().data(), messages);
}

TEST(ConversationBodyTest, AToolChoiceOfNoneLeavesToolsOut) {
  const std::string tools = absl::StrCat(kHello, R"(,"tools":[{"type":"function"}])");
  for (const char* choice : {"", R"(,"tool_choice":null)", R"(,"tool_choice":"auto")"}) {
    const auto call = Call(absl::StrCat(tools, choice), OwnModel());
    ASSERT_TRUE(call.ok()) << call.status();
    EXPECT_EQ(call->conversation().tools(), R"([{"type":"function"}])");
    EXPECT_THAT(Wrong(absl::StrCat(tools, choice), TextModel()),
                HasSubstr("tools: must be left out"));
  }
  const std::string none = absl::StrCat(tools, R"(,"tool_choice":"none")");
  const auto own = Call(none, OwnModel()), text = Call(none, TextModel());
  ASSERT_TRUE(own.ok() && text.ok());
  EXPECT_EQ(own->conversation().tools(), "");
  EXPECT_EQ(own->conversation().messages(), R"([{"role":"user","content":"hello"}])");
  EXPECT_EQ(text->text(), "U:helloA:");
  EXPECT_THAT(Wrong(absl::StrCat(none, R"(,"functions":[{}])"), TextModel()),
              HasSubstr("functions: must be left out"));
  EXPECT_THAT(Wrong(absl::StrCat(kHello, R"(,"tools":{},"tool_choice":"none")"), OwnModel()),
              HasSubstr("tools: must be a list"));
}

TEST(ConversationBodyTest, AToolChoiceThatWouldMakeACallIsRefused) {
  for (const char* choice :
       {R"("required")", R"({"type":"function","function":{"name":"f"}})", R"("any")", "5", "[]"}) {
    for (const v1::Model& model : {OwnModel(), TextModel()}) {
      EXPECT_EQ(
          Wrong(absl::StrCat(kHello, R"(,"tool_choice":)", choice), model),
          "tool_choice: must be auto, none or left out: a model cannot be made to call a tool");
    }
  }
}

TEST(ConversationBodyTest, OneOfSeveralTemplatesIsNamed) {
  const auto call = Call(absl::StrCat(kHello, R"(,"chat_template":"rag")"), OwnModel());
  ASSERT_TRUE(call.ok()) << call.status();
  EXPECT_EQ(call->conversation().template_name(), "rag");
}

TEST(ConversationBodyTest, WhatIsWrongIsNamed) {
  const v1::Model own = OwnModel();
  EXPECT_THAT(Wrong(R"("messages":[])", own), HasSubstr("messages: must be a list"));
  EXPECT_THAT(Wrong(R"("messages":[5])", own), HasSubstr("messages[0]: must be an object"));
  EXPECT_THAT(Wrong(R"("messages":[{"content":"x"}])", own),
              HasSubstr("messages[0].role: is missing, must be a string"));
  EXPECT_THAT(Wrong(R"("messages":[{"role":"user","content":[{"type":"image_url"}]}])", own),
              HasSubstr("messages[0].content: is a list, must be a string"));
  EXPECT_THAT(Wrong(absl::StrCat(kHello, R"(,"tools":{})"), own),
              HasSubstr("tools: must be a list"));
  EXPECT_THAT(Wrong(absl::StrCat(kHello, R"(,"chat_template_kwargs":[])"), own),
              HasSubstr("chat_template_kwargs: is a list, must be an object"));
  EXPECT_THAT(Wrong(absl::StrCat(kHello, R"(,"chat_template":"{{ x }}")"), own),
              HasSubstr("chat_template: must be the name of one of the model's own templates, of "
                        "default, rag, or left out"));
  EXPECT_THAT(Wrong(absl::StrCat(kHello, R"(,"chat_template":5)"), own),
              HasSubstr("chat_template: is 5, must be"));
  v1::Model none;
  none.set_name("none");
  EXPECT_THAT(Wrong(kHello, none), HasSubstr("model: none was not made for conversations"));
}

TEST(ConversationBodyTest, AChatTemplateWritesText) {
  v1::Model both = TextModel();
  both.add_conversation_templates("default");
  for (const v1::Model& model : {TextModel(), both}) {
    const auto call = Call(R"("messages":[{"role":"user","content":"hello"}])", model);
    ASSERT_TRUE(call.ok()) << call.status();
    EXPECT_EQ(call->text(), "U:helloA:");
  }
  EXPECT_THAT(Wrong(absl::StrCat(kHello, R"(,"tools":[{}])"), both),
              HasSubstr("tools: must be left out"));
  EXPECT_THAT(Wrong(R"("messages":[{"role":"tool","content":"x"}])", both),
              HasSubstr("messages[0].role: is \"tool\", must be system, user or assistant"));
  EXPECT_THAT(Wrong(R"("messages":[{"role":"user"}])", both),
              HasSubstr("messages[0].content: is missing, must be a string"));
  EXPECT_THAT(Wrong(R"("messages":[{"role":"user","content":null}])", both),
              HasSubstr("messages[0].content: is null, must be a string"));
  EXPECT_THAT(
      Wrong(R"("messages":[{"role":"assistant","content":null,"tool_calls":[{}]}])", both),
      HasSubstr("messages[0].tool_calls: must be left out: this model's template only writes"));
}

TEST(ConversationBodyTest, TheServersFieldsAreTheBodys) {
  auto request = ParseChat(absl::StrCat("{", kHello, "}"), "");
  ASSERT_TRUE(request.ok());
  const auto told = [&](const char* field) {
    return ToChatError(Refused(Reason::kValueInvalid, field, "x"), *request);
  };
  EXPECT_EQ(told("conversation.messages[1]").param, "messages[1]");
  EXPECT_EQ(told("conversation.template_kwargs").message, "chat_template_kwargs: x");
  EXPECT_EQ(told("conversation.tools").param, "tools");
  EXPECT_EQ(told("conversation").message, "messages: x");
}

TEST(ConversationBodyTest, IsTokenized) {
  const auto body = ParseTokenize(absl::StrCat(R"({"model":"m",)", kHello, "}"));
  ASSERT_TRUE(body.ok()) << body.status();
  ASSERT_TRUE(body->conversation.has_value());
  EXPECT_EQ(body->conversation->own.messages(), R"([{"role":"user","content":"hello"}])");
  const auto both = ParseTokenize(absl::StrCat(R"({"prompt":"x",)", kHello, "}"));
  EXPECT_THAT(std::string(both.status().message()), HasSubstr("prompt: must be left out"));
  const auto required = ParseTokenize(absl::StrCat("{", kHello, R"(,"tool_choice":"required"})"));
  EXPECT_THAT(std::string(required.status().message()), HasSubstr("tool_choice: must be auto"));
  EXPECT_FALSE(ParseTokenize(R"({"prompt":"x"})")->conversation.has_value());
}

}  // namespace
}  // namespace tvq::gateway
