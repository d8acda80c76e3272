// Any bytes as the body of a request to the gateway: what is accepted keeps its bounds, what is
// refused has an answer that is JSON. The first byte chooses the reader.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "client/gateway/bodies/chat_answer.h"
#include "client/gateway/bodies/chat_request.h"
#include "client/gateway/bodies/completions_answer.h"
#include "client/gateway/bodies/completions_request.h"
#include "client/gateway/bodies/embeddings.h"
#include "client/gateway/bodies/errors.h"
#include "client/gateway/bodies/json_text.h"
#include "client/gateway/bodies/session_requests.h"

namespace tvq::gateway {
namespace {

void Expect(bool sound) {
  if (!sound) std::abort();
}

void ExpectError(const absl::Status& status) {
  Expect(absl::IsInvalidArgument(status));
  const ApiError error = ToApiError(status);
  Expect(error.status == 400);
  Expect(nlohmann::json::parse(ToJson(error))["error"]["message"].is_string());
}

// A message as the server would send it, with the text of the request.
v1::GenerateResponse Response(std::string_view text) {
  v1::GenerateResponse response;
  v1::SampleDelta* const delta = response.add_deltas();
  delta->set_text(std::string(text));
  delta->add_token_ids(1);
  v1::TokenLogprob* const token = delta->add_logprobs()->mutable_token();
  token->set_token(std::string(text));
  delta->set_finish_reason(v1::FINISH_REASON_STOP);
  response.mutable_usage()->set_completion_tokens(1);
  return response;
}

void ExpectEvents(const std::string& events) {
  for (size_t at = 0; at < events.size();) {
    const size_t end = events.find("\n\n", at);
    Expect(end != std::string::npos && events.compare(at, 6, "data: ") == 0);
    Expect(nlohmann::json::parse(events.substr(at + 6, end - at - 6)).is_object());
    at = end + 2;
  }
}

void Completions(std::string_view body) {
  const auto request = ParseCompletions(body, "key");
  if (!request.ok()) return ExpectError(request.status());
  Expect(!request->calls.empty() && request->calls.size() <= kMaxPrompts);
  Expect(request->n >= 1 && request->n <= 128);
  const AnswerHead head = {.id = "cmpl-1", .model = request->model, .created = 1};
  CompletionsEvents events(*request, head);
  std::string out;
  events.Append(0, Response(body), &out);
  events.AppendEnd(&out);
  ExpectEvents(out);
  CompletionsWhole whole(*request, head);
  whole.Add(0, Response(body));
  Expect(nlohmann::json::parse(whole.ToJson()).is_object());
}

void Chat(std::string_view body) {
  auto request = ParseChat(body, "key");
  if (!request.ok()) return ExpectError(request.status());
  v1::Model model;
  model.mutable_chat_template()->mutable_user()->set_prefix("U");
  v1::Model own;
  own.add_conversation_templates("default");
  ChatRequest other = *request;
  if (ApplyTemplate(own, &other).ok()) {
    const v1::Conversation& conversation = other.call.conversation();
    const nlohmann::json asked = nlohmann::json::parse(body);
    Expect(nlohmann::json::parse(conversation.messages()).size() == asked.at("messages").size());
    if (!conversation.tools().empty()) {
      Expect(nlohmann::json::parse(conversation.tools()) == asked.at("tools"));
    }
  }
  if (const auto status = ApplyTemplate(model, &*request); !status.ok()) return ExpectError(status);
  ChatEvents events(*request, {.id = "chatcmpl-1", .model = "m", .created = 1});
  std::string out;
  events.Append(0, Response(body), &out);
  events.AppendEnd(&out);
  ExpectEvents(out);
  ChatWhole whole(*request, {.id = "chatcmpl-1", .model = "m", .created = 1});
  whole.Add(0, Response(body));
  Expect(nlohmann::json::parse(whole.ToJson()).is_object());
}

void Embeddings(std::string_view body) {
  const auto request = ParseEmbeddings(body);
  if (!request.ok()) return ExpectError(request.status());
  Expect(!request->calls.empty() && request->calls.size() <= kMaxInputs);
  EmbeddingsAnswer answer(*request);
  v1::EncodeResponse reply;
  reply.add_vectors(0.5F);
  answer.Add(0, reply);
  const auto json = nlohmann::json::parse(answer.ToJson(request->model));
  Expect(json["data"].size() == request->calls.size());
}

template <typename T>
void Check(const absl::StatusOr<T>& request) {
  if (!request.ok()) ExpectError(request.status());
}

void Others(uint8_t which, std::string_view body) {
  const SessionTarget target = {.id = "s", .idempotency_key = "k"};
  const QueryMap query = {{"model", std::string(body)},
                          {"ttl", std::string(body.substr(0, 20))},
                          {"limit", std::string(body.substr(0, 20))},
                          {"expected_version", std::string(body.substr(0, 20))},
                          {"include_transcript", std::string(body.substr(0, 5))}};
  switch (which % 13) {
    case 0:
      return Check(ParseCreate(body, "k"));
    case 1:
      return Check(ParseAppend(body, target));
    case 2:
      return Check(ParseFork(body, target));
    case 3:
      return Check(ParseMark(body, target));
    case 4:
      return Check(ParseRewind(body, target));
    case 5:
      return Check(ParseSave(body, target));
    case 6:
      return Check(ParseCall(query, target));
    case 7:
      return Check(ParseGet(query, "s"));
    case 8:
      return Check(ParseList(query));
    case 9:
      return Check(ParseImport(query, "k"));
    case 10:
      return Check(ParseTokenize(body));
    case 11:
      return Check(ParseDetokenize(body));
    default:
      return Embeddings(body);
  }
}

}  // namespace
}  // namespace tvq::gateway

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view body(reinterpret_cast<const char*>(data + 1), size - 1);
  switch (data[0] % 3) {
    case 0:
      tvq::gateway::Completions(body);
      break;
    case 1:
      tvq::gateway::Chat(body);
      break;
    default:
      tvq::gateway::Others(data[0] / 3, body);
  }
  return 0;
}
