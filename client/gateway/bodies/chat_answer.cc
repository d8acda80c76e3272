#include "client/gateway/bodies/chat_answer.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "client/gateway/bodies/choice.h"
#include "client/gateway/bodies/json_text.h"

namespace tvq::gateway {
namespace {

void AppendHead(const AnswerHead& head, const char* object, std::string* out) {
  *out += R"({"id":)";
  AppendJsonString(head.id, out);
  absl::StrAppend(out, R"(,"object":")", object, R"(","created":)", head.created, R"(,"model":)");
  AppendJsonString(head.model, out);
  *out += R"(,"choices":[)";
}

// {"token":...,"logprob":...,"bytes":[...]} without the closing brace.
void AppendToken(const v1::TokenLogprob& token, std::string* out) {
  *out += R"({"token":)";
  AppendJsonString(TokenText(token), out);
  *out += R"(,"logprob":)";
  AppendJsonNumber(token.logprob(), out);
  *out += R"(,"bytes":[)";
  bool first = true;
  for (const char byte : token.token()) {
    if (!std::exchange(first, false)) out->push_back(',');
    AppendJsonNumber(int64_t{static_cast<unsigned char>(byte)}, out);
  }
  out->push_back(']');
}

template <typename Tokens>
void AppendChatLogprobs(const Tokens& tokens, std::string* out) {
  *out += R"({"content":[)";
  bool first = true;
  for (const v1::TokenLogprobs& token : tokens) {
    if (!std::exchange(first, false)) out->push_back(',');
    AppendToken(token.token(), out);
    *out += R"(,"top_logprobs":[)";
    bool first_top = true;
    for (const v1::TokenLogprob& top : token.top()) {
      if (!std::exchange(first_top, false)) out->push_back(',');
      AppendToken(top, out);
      out->push_back('}');
    }
    *out += "]}";
  }
  *out += "]}";
}

// What follows a choice's text, up to its closing brace.
void AppendRest(const ChatRequest& request, const v1::SampleDelta& delta, v1::FinishReason finish,
                std::string* out) {
  *out += R"(,"logprobs":)";
  if (request.logprobs) {
    AppendChatLogprobs(delta.logprobs(), out);
  } else {
    *out += "null";
  }
  out->push_back(',');
  AppendFinish(finish, delta, out);
  if (request.return_token_ids) {
    *out += R"(,"token_ids":)";
    AppendIds({delta.token_ids().data(), static_cast<size_t>(delta.token_ids_size())}, out);
  }
  out->push_back('}');
}

}  // namespace

ChatEvents::ChatEvents(const ChatRequest& request, const AnswerHead& head)
    : request_(request), started_(static_cast<size_t>(request.n)) {
  prefix_ = "data: ";
  AppendHead(head, "chat.completion.chunk", &prefix_);
  suffix_ = request.include_usage ? R"(],"usage":null)" : "]";
}

void ChatEvents::Append(size_t, const v1::GenerateResponse& response, std::string* out) {
  for (const v1::SampleDelta& delta : response.deltas()) {
    if (static_cast<size_t>(delta.index()) >= started_.size()) continue;
    if (delta.finish_reason() == v1::FINISH_REASON_UNSPECIFIED || !request_.call.has_session()) {
      AppendDelta(delta, delta.finish_reason(), nullptr, out);
      continue;
    }
    AppendDelta(delta, v1::FINISH_REASON_UNSPECIFIED, nullptr, out);
    last_ = delta;
    last_->clear_text();
    last_->clear_token_ids();
    last_->clear_logprobs();
  }
  if (response.has_usage()) AddUsage(response.usage(), &usage_);
  if (response.has_session() && last_) {
    AppendDelta(*last_, last_->finish_reason(), &response.session(), out);
  }
}

void ChatEvents::AppendDelta(const v1::SampleDelta& delta, v1::FinishReason finish,
                             const v1::SessionPosition* session, std::string* out) {
  const bool shows_tokens = request_.return_token_ids || request_.logprobs;
  if (delta.text().empty() && finish == v1::FINISH_REASON_UNSPECIFIED &&
      (!shows_tokens || delta.token_ids().empty())) {
    return;
  }
  const auto index = static_cast<size_t>(delta.index());
  *out += prefix_;
  absl::StrAppend(out, R"({"index":)", index, R"(,"delta":{)");
  if (!started_[index]) *out += R"("role":"assistant",)";
  started_[index] = true;
  *out += R"("content":)";
  AppendJsonString(delta.text(), out);
  out->push_back('}');
  AppendRest(request_, delta, finish, out);
  *out += suffix_;
  if (session != nullptr) {
    out->push_back(',');
    AppendSession(*session, out);
  }
  *out += "}\n\n";
}

void ChatEvents::AppendEnd(std::string* out) {
  if (!request_.include_usage) return;
  *out += prefix_;
  *out += "],";
  AppendUsage(usage_, out);
  *out += "}\n\n";
}

ChatWhole::ChatWhole(const ChatRequest& request, AnswerHead head)
    : request_(request), head_(std::move(head)), choices_(static_cast<size_t>(request.n)) {}

void ChatWhole::Add(size_t, const v1::GenerateResponse& response) {
  for (const v1::SampleDelta& delta : response.deltas()) {
    if (static_cast<size_t>(delta.index()) >= choices_.size()) continue;
    Choice& choice = choices_[static_cast<size_t>(delta.index())];
    choice.text += delta.text();
    choice.all.MergeFrom(delta);
  }
  if (response.has_usage()) AddUsage(response.usage(), &usage_);
  if (response.has_session()) session_ = response.session();
}

std::string ChatWhole::ToJson() const {
  std::string out;
  AppendHead(head_, "chat.completion", &out);
  for (size_t i = 0; i < choices_.size(); ++i) {
    const v1::SampleDelta& all = choices_[i].all;
    if (i > 0) out.push_back(',');
    absl::StrAppend(&out, R"({"index":)", i, R"(,"message":{"role":"assistant","content":)");
    AppendJsonString(choices_[i].text, &out);
    out.push_back('}');
    AppendRest(request_, all, all.finish_reason(), &out);
  }
  out += "],";
  AppendUsage(usage_, &out);
  if (session_) {
    out.push_back(',');
    AppendSession(*session_, &out);
  }
  out.push_back('}');
  return out;
}

}  // namespace tvq::gateway
