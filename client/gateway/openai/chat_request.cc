#include "client/gateway/openai/chat_request.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/gateway/openai/json_body.h"
#include "client/gateway/openai/sampling.h"

namespace tvq::gateway {
namespace {

// A string, or OpenAI's list of parts, of which those of type text are known.
std::optional<std::string> Content(const Json& content) {
  if (content.is_string()) return content.get<std::string>();
  if (!content.is_array()) return std::nullopt;
  std::string text;
  for (const Json& part : content) {
    if (!part.is_object() || part.value("type", Json()) != "text" || !part.contains("text") ||
        !part["text"].is_string()) {
      return std::nullopt;
    }
    text += part["text"].get_ref<const std::string&>();
  }
  return text;
}

void ReadMessages(Fields& fields, std::vector<chat::Message>* messages) {
  const Json* const list = fields.Find("messages");
  if (list == nullptr || !list->is_array() || list->empty()) {
    fields.Fail("messages",
                absl::StrCat("must be a list of at least one message",
                             fields.Has("prompt") ? "; a prompt is for /v1/completions" : ""));
    return;
  }
  for (const Json& item : *list) {
    const std::string name = absl::StrCat("messages[", messages->size(), "]");
    if (!item.is_object()) {
      fields.Fail(name, "must be an object with role and content");
      return;
    }
    Fields message(item);
    std::string role = message.String("role").value_or("");
    if (role == "developer") role = "system";  // OpenAI's newer name
    if (role != "system" && role != "user" && role != "assistant") {
      fields.Fail(absl::StrCat(name, ".role"), "must be system, user or assistant");
      return;
    }
    const Json* const content = message.Find("content");
    std::optional<std::string> text;
    if (content != nullptr) text = Content(*content);
    if (!text) {
      fields.Fail(absl::StrCat(name, ".content"),
                  "must be a string, or a list of parts of type text");
      return;
    }
    messages->push_back({std::move(role), *std::move(text)});
  }
}

void ReadLogprobs(Fields& fields, ChatRequest* request) {
  request->logprobs = fields.Bool("logprobs").value_or(false);
  const auto top = fields.Int32("top_logprobs");
  if (top && !request->logprobs)
    fields.Fail("top_logprobs", "must be left out unless logprobs is true");
  if (request->logprobs) request->call.mutable_sampling()->set_logprobs(top.value_or(0));
}

// What a model that continues a text cannot do.
void RefuseOthers(Fields& fields) {
  for (const char* name : {"tools", "functions"}) {
    const Json* const value = fields.Find(name);
    if (value == nullptr || value->empty()) continue;
    fields.Fail(name, "must be left out: these models only continue a text");
  }
  CheckResponseFormat(fields);
}

}  // namespace

size_t ChatRequest::MemoryBytes() const {
  size_t bytes = call.SpaceUsedLong() + messages.capacity() * sizeof(chat::Message) +
                 contents.capacity() * sizeof(chat::Place);
  for (const chat::Message& message : messages) bytes += message.content.capacity();
  return bytes;
}

absl::StatusOr<ChatRequest> ParseChat(std::string_view body, std::string_view idempotency_key) {
  const absl::StatusOr<Json> json = ParseObject(body);
  if (!json.ok()) return json.status();
  Fields fields(*json);
  ChatRequest request;
  v1::GenerateRequest& call = request.call;
  call.set_model(fields.String("model").value_or(""));
  call.set_priority(fields.Int32("priority").value_or(0));
  ReadSpecialTokens(fields, &call);
  v1::SamplingParams* const sampling = call.mutable_sampling();
  ReadSampling(fields, sampling);
  if (fields.Has("max_completion_tokens")) request.max_tokens_field = "max_completion_tokens";
  const auto max_tokens = fields.Int32(request.max_tokens_field.c_str());
  if (max_tokens) {
    sampling->set_max_tokens(*max_tokens);
  } else if (!fields.Has("limit_to_context")) {
    sampling->set_limit_to_context(true);  // an answer goes on to the end of the context
  }
  // The server takes 0 to compute a prompt alone, which is no answer.
  if (max_tokens == 0) fields.Fail(request.max_tokens_field, "must be at least 1");
  sampling->clear_prompt_logprobs();
  request.n = SampleCount(*sampling);
  ReadLogprobs(fields, &request);
  const StreamOptions options = ReadStream(fields);
  request.stream = options.stream;
  request.include_usage = options.include_usage;
  request.return_token_ids = fields.Bool("return_token_ids").value_or(false);
  ReadSession(fields, idempotency_key, &call);
  RefuseOthers(fields);
  ReadMessages(fields, &request.messages);
  if (!fields.status().ok()) return fields.status();
  return request;
}

absl::Status ApplyTemplate(const v1::Model& model, ChatRequest* request) {
  if (!model.has_chat_template()) {
    return absl::InvalidArgumentError(
        absl::StrCat("model: ", model.name(),
                     " was not made for conversations: its generation_config.json has no "
                     "chat_template; use /v1/completions"));
  }
  request->call.set_model(model.name());
  auto contents = chat::Ask(model, request->messages, &request->call);
  if (!contents.ok()) return contents.status();
  request->contents = *std::move(contents);
  return absl::OkStatus();
}

ApiError ToChatError(const absl::Status& status, const ChatRequest& request) {
  std::string message(status.message());
  const auto wrong = chat::CountInMessage(request.contents, &message);
  FieldNames names = SessionFieldNames();
  names.push_back({"text", wrong ? absl::StrCat("messages[", *wrong, "].content") : "messages"});
  names.push_back({"logprobs", "top_logprobs"});
  names.push_back({"max_tokens", request.max_tokens_field});
  ApiError error = ToApiError(wrong ? absl::Status(status.code(), message) : status, names);
  // Of other fields' limits.
  if (error.status == 400) RenameInMessage("max_tokens", request.max_tokens_field, &error.message);
  return error;
}

}  // namespace tvq::gateway
