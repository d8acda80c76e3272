#include "server/rpc/wire/conversation.h"

#include <google/protobuf/descriptor.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/quoted.h"
#include "base/refusal.h"

namespace tvq {
namespace {

// The part of a message that names a field as templates know it, "messages[0].role" of
// "messages[0].role: is missing"; empty: it names none.
std::string_view FieldIn(std::string_view message) {
  const std::string_view path = message.substr(0, message.find(": "));
  const std::string_view field = path.substr(0, path.find_first_of("[."));
  const bool is_path = std::all_of(path.begin(), path.end(), [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.' || c == '[' ||
           c == ']';
  });
  const bool known = v1::Conversation::descriptor()->FindFieldByName(std::string(field)) != nullptr;
  return is_path && known && path.size() < message.size() ? path : std::string_view();
}

// Names our field in a status of the writer, a library that names fields in its messages. A
// template that ran for too long would do so again, so that is not to be retried.
absl::Status Named(const absl::Status& status) {
  const std::string_view message = MessageOf(status);
  const Reason reason =
      absl::IsResourceExhausted(status) ? Reason::kValueInvalid : RefusalOf(status).reason;
  const std::string_view field = FieldIn(message);
  if (field.empty()) return Refused(reason, "conversation", message);
  return Refused(reason, absl::StrCat("conversation.", std::string(field)),
                 message.substr(field.size() + 2));
}

}  // namespace

absl::Status CheckConversation(const v1::Conversation& message, const ServedModel& model,
                               const RequestLimits& limits) {
  const ModelInfo& info = model.model->info();
  if (info.conversations == nullptr) {
    return Refused(
        Reason::kModelUnfit, "model",
        absl::StrCat(Quoted(model.name),
                     " has no chat template of its own; give the conversation as ",
                     info.generation.chat_template ? "text, as its chat_template says" : "text"));
  }
  const auto bytes = static_cast<int64_t>(message.messages().size() + message.tools().size() +
                                          message.template_kwargs().size());
  return CheckTextSize(bytes, model.model->tokenizer(), limits, "conversation");
}

absl::StatusOr<Conversation> WriteConversation(const v1::Conversation& message,
                                               const ServedModel& model,
                                               const RequestLimits& limits) {
  if (auto status = CheckConversation(message, model, limits); !status.ok()) return status;
  if (message.add_generation_prompt() && message.continue_final_message()) {
    return Refused(Reason::kValuesConflict, "conversation.continue_final_message",
                   "must be false where add_generation_prompt is true");
  }
  const bool prompts = message.has_add_generation_prompt() ? message.add_generation_prompt()
                                                           : !message.continue_final_message();
  auto written = model.model->info().conversations->Write(
      {.messages = message.messages(),
       .tools = message.tools(),
       .template_kwargs = message.template_kwargs(),
       .template_name = message.template_name(),
       .add_generation_prompt = prompts,
       .continue_final_message = message.continue_final_message()});
  if (!written.ok()) return Named(written.status());
  return written;
}

}  // namespace tvq
