#include "server/rpc/wire/conversation.h"

#include <google/protobuf/descriptor.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "base/quoted.h"

namespace tvq {
namespace {

// The writer names fields as templates know them, if it names any. What a template does too long
// it would do so again.
absl::Status Named(const absl::Status& status) {
  const std::string message(status.message());
  const std::string_view field = std::string_view(message).substr(0, message.find_first_of(":[."));
  const bool known = v1::Conversation::descriptor()->FindFieldByName(std::string(field)) != nullptr;
  const absl::StatusCode code =
      absl::IsResourceExhausted(status) ? absl::StatusCode::kInvalidArgument : status.code();
  return absl::Status(code, absl::StrCat("conversation", known ? "." : ": ", message));
}

}  // namespace

absl::Status CheckConversation(const v1::Conversation& message, const ServedModel& model,
                               const RequestLimits& limits) {
  const ModelInfo& info = model.model->info();
  if (info.conversations == nullptr) {
    return absl::UnimplementedError(
        absl::StrCat("model: ", Quoted(model.name),
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
    return absl::InvalidArgumentError(
        "conversation.continue_final_message: must be false where add_generation_prompt is true");
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
