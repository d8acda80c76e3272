#include "client/chat/conversation.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace tvq::chat {

absl::Status Ask(const v1::Model& model, std::span<const Message> messages,
                 v1::GenerateRequest* call) {
  const v1::ChatTemplate& chat = model.chat_template();
  std::string text;
  for (const Message& message : messages) {
    if (message.role == "system" && !chat.has_system()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "messages: has one of role system, which the template of ", model.name(), " lacks"));
    }
    const v1::ChatTemplate::Role& role = message.role == "system" ? chat.system()
                                         : message.role == "user" ? chat.user()
                                                                  : chat.assistant();
    absl::StrAppend(&text, role.prefix(), message.content, role.suffix());
  }
  absl::StrAppend(&text, chat.assistant().prefix());
  call->set_text(std::move(text));
  if (call->has_session()) call->set_answer_suffix(chat.assistant().suffix());
  GoOn(chat, call);
  return absl::OkStatus();
}

void GoOn(const v1::ChatTemplate& chat, v1::GenerateRequest* call) {
  for (const std::string& stop : chat.stop()) call->mutable_sampling()->add_stop(stop);
}

}  // namespace tvq::chat
