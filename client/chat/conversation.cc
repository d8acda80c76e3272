#include "client/chat/conversation.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace tvq::chat {

absl::StatusOr<std::vector<Place>> Ask(const v1::Model& model, std::span<const Message> messages,
                                       v1::GenerateRequest* call) {
  const v1::ChatTemplate& chat = model.chat_template();
  std::string text;
  std::vector<Place> contents;
  contents.reserve(messages.size());
  for (const Message& message : messages) {
    if (message.role == "system" && !chat.has_system()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "messages: has one of role system, which the template of ", model.name(), " lacks"));
    }
    const v1::ChatTemplate::Role& role = message.role == "system" ? chat.system()
                                         : message.role == "user" ? chat.user()
                                                                  : chat.assistant();
    absl::StrAppend(&text, role.prefix(), message.content);
    contents.push_back({text.size() - message.content.size(), text.size()});
    text += role.suffix();
  }
  absl::StrAppend(&text, chat.assistant().prefix());
  call->set_text(std::move(text));
  if (call->has_session()) call->set_answer_suffix(chat.assistant().suffix());
  GoOn(chat, call);
  return contents;
}

std::optional<size_t> CountInMessage(std::span<const Place> contents, std::string* complaint) {
  constexpr std::string_view kField = "text: ", kOffset = " at byte offset ";
  if (!complaint->starts_with(kField)) return std::nullopt;
  const size_t found = complaint->find(kOffset);
  if (found == std::string::npos) return std::nullopt;
  const size_t digits = found + kOffset.size();
  const size_t end =
      std::min(complaint->find_first_not_of("0123456789", digits), complaint->size());
  size_t offset = 0;
  if (!absl::SimpleAtoi(complaint->substr(digits, end - digits), &offset)) return std::nullopt;
  const auto place = std::find_if(contents.begin(), contents.end(), [&](const Place& content) {
    return offset >= content.begin && offset < content.end;
  });
  if (place == contents.end()) return std::nullopt;
  complaint->replace(digits, end - digits, absl::StrCat(offset - place->begin + place->left_out));
  return static_cast<size_t>(place - contents.begin());
}

void GoOn(const v1::ChatTemplate& chat, v1::GenerateRequest* call) {
  for (const std::string& stop : chat.stop()) call->mutable_sampling()->add_stop(stop);
}

}  // namespace tvq::chat
