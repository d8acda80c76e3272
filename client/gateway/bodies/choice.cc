#include "client/gateway/bodies/choice.h"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/gateway/bodies/json_text.h"

namespace tvq::gateway {
namespace {

void AppendComma(bool first, std::string* out) {
  if (!first) out->push_back(',');
}

// {"text":logprob,...}: the token itself, as OpenAI promises, and the most likely ones. Names would
// repeat where tokens have the same text, so of those the first stays.
void AppendTop(const v1::TokenLogprobs& token, std::string* out) {
  std::vector<std::string> named;
  const auto append = [&](const v1::TokenLogprob& one) {
    std::string text = TokenText(one);
    if (std::find(named.begin(), named.end(), text) != named.end()) return;
    AppendComma(named.empty(), out);
    AppendJsonString(text, out);
    out->push_back(':');
    AppendJsonNumber(one.logprob(), out);
    named.push_back(std::move(text));
  };
  out->push_back('{');
  append(token.token());
  for (const v1::TokenLogprob& top : token.top()) append(top);
  out->push_back('}');
}

void AppendRanked(const v1::TokenLogprob& token, bool first, std::string* out) {
  AppendComma(first, out);
  absl::StrAppend(out, "\"", token.token_id(), "\":{\"logprob\":");
  AppendJsonNumber(token.logprob(), out);
  absl::StrAppend(out, ",\"rank\":", token.rank(), ",\"decoded_token\":");
  AppendJsonString(token.token(), out);
  out->push_back('}');
}

}  // namespace

std::string TokenText(const v1::TokenLogprob& token) {
  if (token.token().empty()) return absl::StrCat("token_id:", token.token_id());
  if (IsUtf8(token.token())) return token.token();
  std::string text = "bytes:";
  for (const char byte : token.token()) {
    absl::StrAppend(&text, "\\x", absl::Hex(static_cast<unsigned char>(byte), absl::kZeroPad2));
  }
  return text;
}

int64_t CharactersOf(std::string_view bytes) {
  return std::count_if(bytes.begin(), bytes.end(),
                       [](char byte) { return (static_cast<unsigned char>(byte) & 0xC0) != 0x80; });
}

void AppendLogprobs(std::span<const v1::TokenLogprobs* const> tokens, int64_t* offset,
                    std::string* out) {
  *out += R"({"tokens":[)";
  for (size_t i = 0; i < tokens.size(); ++i) {
    AppendComma(i == 0, out);
    AppendJsonString(TokenText(tokens[i]->token()), out);
  }
  *out += R"(],"token_logprobs":[)";
  for (size_t i = 0; i < tokens.size(); ++i) {
    AppendComma(i == 0, out);
    if (tokens[i]->has_logprob()) {
      AppendJsonNumber(tokens[i]->token().logprob(), out);
    } else {
      *out += "null";
    }
  }
  *out += R"(],"top_logprobs":[)";
  for (size_t i = 0; i < tokens.size(); ++i) {
    AppendComma(i == 0, out);
    if (tokens[i]->has_logprob()) {
      AppendTop(*tokens[i], out);
    } else {
      *out += "null";
    }
  }
  *out += R"(],"text_offset":[)";
  for (size_t i = 0; i < tokens.size(); ++i) {
    AppendComma(i == 0, out);
    AppendJsonNumber(*offset, out);
    *offset += CharactersOf(tokens[i]->token().token());
  }
  *out += "]}";
}

void AppendPromptLogprobs(std::span<const v1::TokenLogprobs* const> tokens, std::string* out) {
  out->push_back('[');
  for (size_t i = 0; i < tokens.size(); ++i) {
    AppendComma(i == 0, out);
    const v1::TokenLogprobs& token = *tokens[i];
    if (!token.has_logprob()) {
      *out += "null";
      continue;
    }
    out->push_back('{');
    AppendRanked(token.token(), true, out);
    for (const v1::TokenLogprob& top : token.top()) {
      if (top.token_id() != token.token().token_id()) AppendRanked(top, false, out);
    }
    out->push_back('}');
  }
  out->push_back(']');
}

void AppendFinish(v1::FinishReason reason, const v1::SampleDelta& delta, std::string* out) {
  switch (reason) {
    case v1::FINISH_REASON_STOP:
      *out += R"("finish_reason":"stop","stop_reason":)";
      break;
    case v1::FINISH_REASON_LENGTH:
      *out += R"("finish_reason":"length","stop_reason":)";
      break;
    case v1::FINISH_REASON_CANCELLED:
      *out += R"("finish_reason":"abort","stop_reason":)";
      break;
    case v1::FINISH_REASON_ERROR:
      *out += R"("finish_reason":"error","stop_reason":)";
      break;
    default:
      *out += R"("finish_reason":null,"stop_reason":)";
  }
  if (delta.has_stop_string()) {
    AppendJsonString(delta.stop_string(), out);
  } else if (delta.has_stop_token_id()) {
    absl::StrAppend(out, delta.stop_token_id());
  } else {
    *out += "null";
  }
}

void AppendIds(std::span<const int32_t> ids, std::string* out) {
  out->push_back('[');
  for (size_t i = 0; i < ids.size(); ++i) {
    AppendComma(i == 0, out);
    AppendJsonNumber(int64_t{ids[i]}, out);
  }
  out->push_back(']');
}

void AppendUsage(const v1::Usage& usage, std::string* out) {
  absl::StrAppend(out, R"("usage":{"prompt_tokens":)", usage.prompt_tokens(),
                  R"(,"completion_tokens":)", usage.completion_tokens(), R"(,"total_tokens":)",
                  usage.prompt_tokens() + usage.completion_tokens(),
                  R"(,"prompt_tokens_details":{"cached_tokens":)", usage.cached_tokens());
  if (usage.reread_tokens() > 0) {
    absl::StrAppend(out, R"(,"reread_tokens":)", usage.reread_tokens());
  }
  *out += "}}";
}

void AppendSession(const v1::SessionPosition& session, std::string* out) {
  *out += R"("session":{"id":)";
  AppendJsonString(session.session_id(), out);
  absl::StrAppend(out, R"(,"version":)", session.version(), R"(,"persisted_version":)",
                  session.persisted_version(), R"(,"position":)", session.position(), "}");
}

}  // namespace tvq::gateway
