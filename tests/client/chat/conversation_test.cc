#include "client/chat/conversation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tvq::chat {
namespace {

v1::Model ModelWithTemplate() {
  v1::Model model;
  model.mutable_chat_template()->mutable_system()->set_suffix("\n");
  model.mutable_chat_template()->mutable_user()->set_prefix("User: ");
  model.mutable_chat_template()->mutable_user()->set_suffix("\n");
  model.mutable_chat_template()->mutable_assistant()->set_prefix("Tutor:");
  model.mutable_chat_template()->mutable_assistant()->set_suffix("\n");
  return model;
}

const std::vector<Message> kMessages = {
    {"system", "Be kind."}, {"user", ""}, {"assistant", "Hi"}, {"user", "User: Hi"}};

TEST(ConversationTest, TellsWhereTheContentsAre) {
  v1::GenerateRequest call;
  const auto contents = Ask(ModelWithTemplate(), kMessages, &call);
  ASSERT_TRUE(contents.ok()) << contents.status();
  EXPECT_EQ(call.text(), "Be kind.\nUser: \nTutor:Hi\nUser: User: Hi\nTutor:");
  ASSERT_EQ(contents->size(), kMessages.size());
  for (size_t i = 0; i < kMessages.size(); ++i) {
    const auto [begin, end, left_out] = (*contents)[i];
    EXPECT_EQ(left_out, 0);
    EXPECT_EQ(call.text().substr(begin, end - begin), kMessages[i].content);
  }
}

TEST(ConversationTest, AnOffsetIsCountedInTheMessage) {
  v1::GenerateRequest call;
  const auto contents = Ask(ModelWithTemplate(), kMessages, &call);
  ASSERT_TRUE(contents.ok()) << contents.status();
  // What becomes of the message at each byte of the prompt.
  const auto told = [&](size_t offset) {
    std::string complaint =
        "text: \"x\" at byte offset " + std::to_string(offset) + " is not known";
    const auto index = CountInMessage(*contents, &complaint);
    return index ? std::to_string(*index) + complaint : complaint;
  };
  EXPECT_EQ(told(0), "0text: \"x\" at byte offset 0 is not known");
  EXPECT_EQ(told(7), "0text: \"x\" at byte offset 7 is not known");
  EXPECT_EQ(told(8), "text: \"x\" at byte offset 8 is not known") << "of the template";
  EXPECT_EQ(told(15), "text: \"x\" at byte offset 15 is not known") << "behind an empty content";
  EXPECT_EQ(told(23), "2text: \"x\" at byte offset 1 is not known");
  EXPECT_EQ(told(37), "3text: \"x\" at byte offset 6 is not known");
  EXPECT_EQ(told(1000), "text: \"x\" at byte offset 1000 is not known");
}

TEST(ConversationTest, WhatWasLeftOutCounts) {
  std::string complaint = "text: x at byte offset 12";
  EXPECT_EQ(CountInMessage({{{.begin = 10, .end = 13, .left_out = 1}}}, &complaint), 0);
  EXPECT_EQ(complaint, "text: x at byte offset 3");
}

TEST(ConversationTest, OtherComplaintsStayAsTheyAre) {
  const std::vector<Place> contents = {{0, 100}};
  for (const std::string other :
       {"text: has 9 tokens", "text: x at byte offset ", "text: x at byte offset none",
        "text: x at byte offset 99999999999999999999999",
        "answer_suffix: x at byte offset 1 is not known", ""}) {
    std::string complaint = other;
    EXPECT_FALSE(CountInMessage(contents, &complaint)) << other;
    EXPECT_EQ(complaint, other);
  }
}

}  // namespace
}  // namespace tvq::chat
