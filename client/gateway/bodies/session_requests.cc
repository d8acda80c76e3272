#include "client/gateway/bodies/session_requests.h"

#include <cstdint>
#include <ctime>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/time/time.h"
#include "client/gateway/bodies/json_body.h"
#include "client/gateway/bodies/sampling.h"

namespace tvq::gateway {
namespace {

constexpr double kLongestSeconds = 1e10;

absl::StatusOr<Json> Object(std::string_view body) {
  return body.empty() ? Json::object() : ParseObject(body);
}

// A query as the object that a body would be: what looks like a number or a truth value is one.
Json ToJson(const QueryMap& query) {
  Json json = Json::object();
  for (const auto& [name, value] : query) {
    int64_t integer = 0;
    double number = 0;
    const bool is_word = name == "model" || name == "label" || name == "parent_id" ||
                         name == "after" || name == "durability";
    json[name] = value;
    if (is_word) continue;
    if (value == "true" || value == "false") {
      json[name] = value == "true";
    } else if (absl::SimpleAtoi(value, &integer)) {
      json[name] = integer;
    } else if (absl::SimpleAtod(value, &number)) {
      json[name] = number;
    }
  }
  return json;
}

template <typename Message>
void ReadTtl(Fields& fields, Message* message) {
  const auto ttl = fields.Number("ttl");
  if (!ttl) return;
  const bool in_range = *ttl >= 0 && *ttl <= kLongestSeconds;  // which no NaN is
  if (!in_range) {
    fields.Fail("ttl", "must be seconds, from 0 to 1e10");
    return;
  }
  const timespec parts = absl::ToTimespec(absl::Seconds(*ttl));
  message->mutable_ttl()->set_seconds(parts.tv_sec);
  message->mutable_ttl()->set_nanos(static_cast<int32_t>(parts.tv_nsec));
}

void ReadCall(Fields& fields, const SessionTarget& target, v1::SessionCall* call) {
  call->set_session_id(target.id);
  call->set_idempotency_key(target.idempotency_key);
  if (const auto version = fields.Int("expected_version")) call->set_expected_version(*version);
  call->set_durability(ReadDurability(fields));
}

void ReadCreate(Fields& fields, const std::string& idempotency_key,
                v1::CreateSessionRequest* create) {
  create->set_model(fields.String("model").value_or(""));
  ReadTtl(fields, create);
  if (const auto keep = fields.Bool("keep_transcript")) create->set_keep_transcript(*keep);
  ReadSpecialTokens(fields, create);
  create->set_label(fields.String("label").value_or(""));
  create->set_durability(ReadDurability(fields));
  create->set_idempotency_key(idempotency_key);
}

std::string Required(Fields& fields, const char* name) {
  auto value = fields.String(name);
  if (!value) fields.Fail(name, "must be given");
  return std::move(value).value_or("");
}

// What `read` makes of an object: (fields, message).
template <typename Message, typename Read>
absl::StatusOr<Message> Parse(absl::StatusOr<Json> json, const Read& read) {
  if (!json.ok()) return json.status();
  Fields fields(*json);
  Message message;
  read(fields, &message);
  if (!fields.status().ok()) return fields.status();
  return message;
}

}  // namespace

absl::StatusOr<v1::CreateSessionRequest> ParseCreate(std::string_view body,
                                                     const std::string& idempotency_key) {
  return Parse<v1::CreateSessionRequest>(Object(body), [&](Fields& fields, auto* create) {
    ReadCreate(fields, idempotency_key, create);
  });
}

absl::StatusOr<v1::AppendSessionRequest> ParseAppend(std::string_view body,
                                                     const SessionTarget& target) {
  return Parse<v1::AppendSessionRequest>(Object(body), [&](Fields& fields, auto* append) {
    ReadCall(fields, target, append->mutable_session());
    ReadSpecialTokens(fields, append);
    auto text = fields.String("text");
    const bool has_ids = fields.Has("token_ids");
    if (text && has_ids) fields.Fail("text", "must be left out beside token_ids");
    if (!text && !has_ids) fields.Fail("text", "must be given, or token_ids instead");
    if (text) append->set_text(*std::move(text));
    if (!has_ids) return;
    for (const int32_t id : fields.Ints("token_ids")) append->mutable_token_ids()->add_ids(id);
  });
}

absl::StatusOr<v1::ForkSessionRequest> ParseFork(std::string_view body,
                                                 const SessionTarget& target) {
  return Parse<v1::ForkSessionRequest>(Object(body), [&](Fields& fields, auto* fork) {
    ReadCall(fields, target, fork->mutable_session());
    ReadTtl(fields, fork);
    fork->set_label(fields.String("label").value_or(""));
    fork->set_count(fields.Int32("count").value_or(1));
    if (fork->count() < 1) fields.Fail("count", "must be at least 1");
    fork->set_mark(fields.String("mark").value_or(""));
  });
}

absl::StatusOr<v1::MarkSessionRequest> ParseMark(std::string_view body,
                                                 const SessionTarget& target) {
  return Parse<v1::MarkSessionRequest>(Object(body), [&](Fields& fields, auto* mark) {
    ReadCall(fields, target, mark->mutable_session());
    mark->set_name(Required(fields, "name"));
  });
}

absl::StatusOr<v1::RewindSessionRequest> ParseRewind(std::string_view body,
                                                     const SessionTarget& target) {
  return Parse<v1::RewindSessionRequest>(Object(body), [&](Fields& fields, auto* rewind) {
    ReadCall(fields, target, rewind->mutable_session());
    rewind->set_mark(Required(fields, "mark"));
  });
}

absl::StatusOr<v1::SaveSessionRequest> ParseSave(std::string_view body,
                                                 const SessionTarget& target) {
  return Parse<v1::SaveSessionRequest>(Object(body), [&](Fields& fields, auto* save) {
    ReadCall(fields, target, save->mutable_session());
  });
}

absl::StatusOr<v1::SessionCall> ParseCall(const QueryMap& query, const SessionTarget& target) {
  return Parse<v1::SessionCall>(
      ToJson(query), [&](Fields& fields, auto* call) { ReadCall(fields, target, call); });
}

absl::StatusOr<v1::GetSessionRequest> ParseGet(const QueryMap& query, const std::string& id) {
  return Parse<v1::GetSessionRequest>(ToJson(query), [&](Fields& fields, auto* get) {
    get->set_session_id(id);
    get->set_include_transcript(fields.Bool("include_transcript").value_or(false));
    get->set_transcript_start(fields.Int("transcript_start").value_or(0));
  });
}

absl::StatusOr<v1::ListSessionsRequest> ParseList(const QueryMap& query) {
  return Parse<v1::ListSessionsRequest>(ToJson(query), [&](Fields& fields, auto* list) {
    list->set_model(fields.String("model").value_or(""));
    list->set_parent_id(fields.String("parent_id").value_or(""));
    list->set_page_token(fields.String("after").value_or(""));
    list->set_page_size(fields.Int32("limit").value_or(0));
  });
}

absl::StatusOr<v1::CreateSessionRequest> ParseImport(const QueryMap& query,
                                                     const std::string& idempotency_key) {
  return Parse<v1::CreateSessionRequest>(ToJson(query), [&](Fields& fields, auto* create) {
    ReadCreate(fields, idempotency_key, create);
  });
}

absl::StatusOr<v1::GetServerInfoRequest> ParseServerInfo(const QueryMap& query) {
  return Parse<v1::GetServerInfoRequest>(ToJson(query), [&](Fields& fields, auto* info) {
    info->set_include_history(fields.Bool("include_history").value_or(false));
  });
}

absl::StatusOr<TokenizeBody> ParseTokenize(std::string_view body) {
  const absl::StatusOr<Json> json = Object(body);
  return Parse<TokenizeBody>(json, [&](Fields& fields, TokenizeBody* tokenize) {
    v1::TokenizeRequest& request = tokenize->request;
    request.set_model(fields.String("model").value_or(""));
    request.set_allow_unknown(fields.Bool("allow_unknown").value_or(false));
    ReadSpecialTokens(fields, &request);
    if (!fields.Has("messages")) {
      request.set_text(Required(fields, "prompt"));
    } else if (fields.Has("prompt")) {
      fields.Fail("prompt", "must be left out beside messages");
    } else {
      tokenize->conversation = ReadConversation(body, *json, fields);
    }
  });
}

absl::StatusOr<v1::DetokenizeRequest> ParseDetokenize(std::string_view body) {
  return Parse<v1::DetokenizeRequest>(Object(body), [&](Fields& fields, auto* request) {
    request->set_model(fields.String("model").value_or(""));
    if (!fields.Has("tokens")) fields.Fail("tokens", "must be given");
    for (const int32_t id : fields.Ints("tokens")) request->add_token_ids(id);
  });
}

}  // namespace tvq::gateway
