// A chat template and a tokenizer for the fake model: a message is "u:text" and an end id, the next
// answer begins with "a:". With the variable `hide` the text of answers is left out.
#ifndef TVQ_TESTS_SERVER_RPC_FAKE_CONVERSATIONS_H_
#define TVQ_TESTS_SERVER_RPC_FAKE_CONVERSATIONS_H_

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "models/runtime/text/conversation_writer.h"
#include "tests/server/engine/fake_model.h"

namespace tvq {

class FakeConversations : public ConversationWriter {
 public:
  absl::StatusOr<Conversation> Write(const ConversationRequest& request) const override {
    const auto messages = nlohmann::json::parse(request.messages, nullptr, false);
    if (!messages.is_array()) return absl::InvalidArgumentError("messages: is not a list");
    const auto variables = request.template_kwargs.empty()
                               ? nlohmann::json::object()
                               : nlohmann::json::parse(request.template_kwargs);
    Conversation written;
    const auto add = [&](const std::string& text) {
      written.text += text;
      for (const char c : text) written.ids.push_back(ByteId(c));
    };
    for (const auto& message : messages) {
      const std::string role = message.at("role");
      if (role == "nobody") return absl::InvalidArgumentError("roles must be known");
      const bool hidden = role == "assistant" && variables.contains("hide");
      add(absl::StrCat(role.substr(0, 1), ":"));
      add(hidden ? "" : message.at("content").get<std::string>());
      if (request.continue_final_message && &message == &messages.back()) return written;
      written.text += kEnd;
      written.ids.push_back(kEos);
    }
    if (!request.tools.empty()) add("t:" + request.tools);
    if (!request.template_name.empty()) add("n:" + request.template_name);
    if (request.add_generation_prompt) add("a:");
    return written;
  }

  absl::StatusOr<Continuation> Continue(const Conversation& whole,
                                        std::span<const int32_t> context) const override {
    const auto common = std::ranges::mismatch(whole.ids, context).in1 - whole.ids.begin();
    return Continuation{common, {whole.ids.begin() + common, whole.ids.end()}};
  }

  std::vector<std::string> names() const override { return {"default", "tool_use"}; }

  static constexpr char kEnd[] = "</s>";
};

}  // namespace tvq

#endif  // TVQ_TESTS_SERVER_RPC_FAKE_CONVERSATIONS_H_
