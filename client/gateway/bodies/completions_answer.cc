#include "client/gateway/bodies/completions_answer.h"

#include <algorithm>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/gateway/bodies/choice.h"
#include "client/gateway/bodies/json_text.h"

namespace tvq::gateway {
namespace {

using Logprobs = std::vector<const v1::TokenLogprobs*>;
using Tokens = std::span<const v1::TokenLogprobs>;

void AppendHead(const AnswerHead& head, std::string* out) {
  *out += R"({"id":)";
  AppendJsonString(head.id, out);
  absl::StrAppend(out, R"(,"object":"text_completion","created":)", head.created, R"(,"model":)");
  AppendJsonString(head.model, out);
  *out += R"(,"choices":[)";
}

// Tokens of the prompt, where the answer repeats it, and those that follow.
template <typename List>
Logprobs Pointers(Tokens prompt, const List& tokens) {
  Logprobs pointers;
  for (const v1::TokenLogprobs& token : prompt) pointers.push_back(&token);
  for (const v1::TokenLogprobs& token : tokens) pointers.push_back(&token);
  return pointers;
}

}  // namespace

CompletionsEvents::CompletionsEvents(const CompletionsRequest& request, const AnswerHead& head)
    : request_(request),
      prompts_(request.calls.size()),
      choices_(request.calls.size() * static_cast<size_t>(request.n)) {
  prefix_ = "data: ";
  AppendHead(head, &prefix_);
  suffix_ = request.include_usage ? R"(],"usage":null)" : "]";
}

void CompletionsEvents::Append(size_t prompt, const v1::GenerateResponse& response,
                               std::string* out) {
  for (const v1::TokenLogprobs& token : response.prompt_logprobs()) {
    prompts_[prompt].logprobs.push_back(token);
  }
  const size_t first = prompt * static_cast<size_t>(request_.n);
  const bool on_session = request_.calls[prompt].has_session();
  for (const v1::SampleDelta& delta : response.deltas()) {
    const bool last = delta.finish_reason() != v1::FINISH_REASON_UNSPECIFIED;
    const size_t index = first + static_cast<size_t>(delta.index());
    if (index >= choices_.size()) continue;
    Choice& choice = choices_[index];
    if (last && on_session) {
      choice.last = delta;
      choice.has_last = true;
      if (response.has_session()) break;  // in one event with its position
      AppendDelta(prompt, delta, v1::FINISH_REASON_UNSPECIFIED, nullptr, out);
      choice.last.clear_text();
      choice.last.clear_token_ids();
      choice.last.clear_logprobs();
    } else {
      AppendDelta(prompt, delta, delta.finish_reason(), nullptr, out);
    }
  }
  if (response.has_usage()) AddUsage(response.usage(), &usage_);
  if (response.has_session() && choices_[first].has_last) {
    const v1::SampleDelta last = choices_[first].last;
    AppendDelta(prompt, last, last.finish_reason(), &response.session(), out);
  }
}

void CompletionsEvents::AppendDelta(size_t prompt, const v1::SampleDelta& delta,
                                    v1::FinishReason finish, const v1::SessionPosition* session,
                                    std::string* out) {
  const bool last = finish != v1::FINISH_REASON_UNSPECIFIED;
  const bool shows_tokens = request_.return_token_ids || request_.logprobs;
  if (delta.text().empty() && !last && (!shows_tokens || delta.token_ids().empty())) return;
  const size_t index =
      prompt * static_cast<size_t>(request_.n) + static_cast<size_t>(delta.index());
  Choice& choice = choices_[index];
  *out += prefix_;
  absl::StrAppend(out, R"({"index":)", index, R"(,"text":)");
  AppendJsonString(delta.text(), out);
  *out += R"(,"logprobs":)";
  // The prompt's text may have been sent before they came.
  const Tokens scored = Tokens(prompts_[prompt].logprobs).subspan(choice.prompt_logprobs);
  choice.prompt_logprobs += scored.size();
  if (request_.logprobs) {
    AppendLogprobs(Pointers(request_.echo ? scored : Tokens(), delta.logprobs()), &choice.offset,
                   out);
  } else {
    *out += "null";
  }
  out->push_back(',');
  AppendFinish(finish, delta, out);
  if (request_.return_token_ids) {
    *out += R"(,"token_ids":)";
    AppendIds({delta.token_ids().data(), static_cast<size_t>(delta.token_ids_size())}, out);
  }
  if (request_.prompt_logprobs && !scored.empty()) {
    *out += R"(,"prompt_logprobs":)";
    AppendPromptLogprobs(Pointers(scored, Tokens()), out);
  }
  out->push_back('}');
  *out += suffix_;
  if (session != nullptr) {
    out->push_back(',');
    AppendSession(*session, out);
  }
  *out += "}\n\n";
}

void CompletionsEvents::AppendEnd(std::string* out) {
  if (!request_.include_usage) return;
  *out += prefix_;
  *out += "],";
  AppendUsage(usage_, out);
  *out += "}\n\n";
}

CompletionsWhole::CompletionsWhole(const CompletionsRequest& request, AnswerHead head)
    : request_(request),
      head_(std::move(head)),
      prompt_logprobs_(request.calls.size()),
      choices_(request.calls.size() * static_cast<size_t>(request.n)) {}

void CompletionsWhole::Add(size_t prompt, const v1::GenerateResponse& response) {
  for (const v1::TokenLogprobs& token : response.prompt_logprobs()) {
    prompt_logprobs_[prompt].push_back(token);
  }
  for (const v1::SampleDelta& delta : response.deltas()) {
    const size_t index =
        prompt * static_cast<size_t>(request_.n) + static_cast<size_t>(delta.index());
    if (index >= choices_.size()) continue;
    Choice& choice = choices_[index];
    choice.text += delta.text();
    if (request_.return_token_ids) {
      choice.token_ids.insert(choice.token_ids.end(), delta.token_ids().begin(),
                              delta.token_ids().end());
    }
    choice.logprobs.insert(choice.logprobs.end(), delta.logprobs().begin(), delta.logprobs().end());
    if (delta.finish_reason() == v1::FINISH_REASON_UNSPECIFIED) continue;
    choice.last = delta;
    choice.last.clear_text();
    choice.last.clear_logprobs();
  }
  if (response.has_usage()) AddUsage(response.usage(), &usage_);
  if (response.has_session()) session_ = response.session();
}

void CompletionsWhole::AppendChoice(size_t index, std::string* out) const {
  const Choice& choice = choices_[index];
  const auto& prompt = prompt_logprobs_[index / static_cast<size_t>(request_.n)];
  absl::StrAppend(out, R"({"index":)", index, R"(,"text":)");
  AppendJsonString(choice.text, out);
  *out += R"(,"logprobs":)";
  if (request_.logprobs) {
    int64_t offset = 0;
    AppendLogprobs(Pointers(request_.echo ? Tokens(prompt) : Tokens(), choice.logprobs), &offset,
                   out);
  } else {
    *out += "null";
  }
  out->push_back(',');
  AppendFinish(choice.last.finish_reason(), choice.last, out);
  if (request_.return_token_ids) {
    *out += R"(,"token_ids":)";
    AppendIds(choice.token_ids, out);
  }
  if (request_.prompt_logprobs) {
    *out += R"(,"prompt_logprobs":)";
    AppendPromptLogprobs(Pointers(prompt, Tokens()), out);
  }
  out->push_back('}');
}

std::string CompletionsWhole::ToJson() const {
  std::string out;
  AppendHead(head_, &out);
  for (size_t i = 0; i < choices_.size(); ++i) {
    if (i > 0) out.push_back(',');
    AppendChoice(i, &out);
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
