#include "client/gateway/bodies/chat_request.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/refusal.h"
#include "client/gateway/bodies/json_body.h"
#include "client/gateway/bodies/output_form.h"
#include "client/gateway/bodies/sampling.h"

namespace tvq::gateway {
namespace {

void ReadLogprobs(Fields& fields, ChatRequest* request) {
  request->logprobs = fields.Bool("logprobs").value_or(false);
  const auto top = fields.Int32("top_logprobs");
  if (top && !request->logprobs)
    fields.Fail("top_logprobs", "must be left out unless logprobs is true");
  if (request->logprobs) request->call.mutable_sampling()->set_logprobs(top.value_or(0));
}

}  // namespace

size_t ChatRequest::MemoryBytes() const {
  return call.SpaceUsedLong() + conversation.MemoryBytes() +
         contents.capacity() * sizeof(chat::Place);
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
  if (max_tokens && *max_tokens < 1) {
    fields.Fail(request.max_tokens_field, absl::StrCat("is ", *max_tokens, ", must be at least 1"));
  }
  sampling->clear_prompt_logprobs();
  request.n = SampleCount(*sampling);
  ReadLogprobs(fields, &request);
  const StreamOptions options = ReadStream(fields);
  request.stream = options.stream;
  request.include_usage = options.include_usage;
  request.return_token_ids = fields.Bool("return_token_ids").value_or(false);
  ReadSession(fields, idempotency_key, &call);
  ReadOutputForm(body, fields, sampling);
  request.conversation = ReadConversation(body, *json, fields);
  if (!fields.status().ok()) return fields.status();
  return request;
}

absl::Status ApplyTemplate(const v1::Model& model, ChatRequest* request) {
  auto contents = Ask(model, request->conversation, &request->call);
  if (!contents.ok()) return contents.status();
  request->contents = *std::move(contents);
  return absl::OkStatus();
}

ApiError ToChatError(const absl::Status& status, const ChatRequest& request) {
  std::string message(status.message());
  const auto wrong = chat::CountInMessage(request.contents, &message);
  FieldNames names = SessionFieldNames();
  for (const FieldName& name : ConversationFieldNames()) names.push_back(name);
  names.push_back({"text", wrong ? absl::StrCat("messages[", *wrong, "].content") : "messages"});
  names.push_back({"logprobs", "top_logprobs"});
  names.push_back({"max_tokens", request.max_tokens_field});
  ApiError error = ToApiError(WithRefusal(RefusalOf(status), message), names);
  // Of other fields' limits.
  if (error.status == 400) RenameInMessage("max_tokens", request.max_tokens_field, &error.message);
  return error;
}

}  // namespace tvq::gateway
