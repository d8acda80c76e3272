#include "client/gateway/openai/errors.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "client/gateway/openai/json_text.h"

namespace tvq::gateway {
namespace {

constexpr char kPushback[] = "grpc-retry-pushback-ms";

struct Row {
  absl::StatusCode code;
  int http;
  const char* type;
  const char* name;
};

constexpr Row kRows[] = {
    {absl::StatusCode::kInvalidArgument, 400, "invalid_request_error", ""},
    {absl::StatusCode::kOutOfRange, 400, "invalid_request_error", ""},
    {absl::StatusCode::kUnauthenticated, 401, "invalid_request_error", "invalid_api_key"},
    {absl::StatusCode::kPermissionDenied, 403, "permission_error", "permission_denied"},
    {absl::StatusCode::kNotFound, 404, "invalid_request_error", "not_found"},
    {absl::StatusCode::kAborted, 409, "conflict_error", "conflict"},
    {absl::StatusCode::kAlreadyExists, 409, "conflict_error", "already_exists"},
    {absl::StatusCode::kFailedPrecondition, 412, "invalid_request_error", "failed_precondition"},
    {absl::StatusCode::kResourceExhausted, 429, "rate_limit_error", "rate_limit_exceeded"},
    {absl::StatusCode::kCancelled, 499, "cancelled_error", "cancelled"},
    {absl::StatusCode::kDataLoss, 500, "server_error", "data_loss"},
    {absl::StatusCode::kUnimplemented, 501, "server_error", "unimplemented"},
    {absl::StatusCode::kUnavailable, 503, "server_error", "unavailable"},
    {absl::StatusCode::kDeadlineExceeded, 504, "server_error", "deadline_exceeded"}};

bool IsFieldCharacter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '-' || c == '.' ||
         c == '[' || c == ']';
}

// The field in front of the message's first ": ".
std::string ParamOf(std::string_view message) {
  const size_t colon = message.find(": ");
  if (colon == std::string_view::npos || colon == 0 || colon > 64) return "";
  const std::string_view field = message.substr(0, colon);
  if (!std::all_of(field.begin(), field.end(), IsFieldCharacter)) return "";
  return std::string(field);
}

// Of a prompt, alone or with what is before it and what may come after it; programs shorten it by
// this word. So the server says that it has no room: beyond the model's context, its own limit or
// its queue.
bool IsTooLong(const absl::Status& status) {
  return absl::IsInvalidArgument(status) &&
         (absl::StrContains(status.message(), ", the model's context length") ||
          absl::StrContains(status.message(), ", the prompt tokens that may wait") ||
          (absl::StrContains(status.message(), " tokens, ") &&
           absl::StrContains(status.message(), ", the server's limit")));
}

// What a model cannot do is wrong in the request: clients try again what a server cannot do yet.
bool IsUnfitModel(const absl::Status& status) {
  return absl::IsUnimplemented(status) &&
         ParamOf({status.message().data(), status.message().size()}) == "model";
}

// What the server says of when to come again. gRPC says nothing of it where a message is beyond a
// limit.
std::optional<int64_t> Pushback(const absl::Status& status) {
  const auto payload = status.GetPayload(kPushback);
  int64_t ms = 0;
  if (!payload || !absl::SimpleAtoi(std::string(*payload), &ms)) return std::nullopt;
  return ms;
}

}  // namespace

ApiError ToApiError(const absl::Status& status) {
  ApiError error;
  error.message = std::string(status.message());
  error.type = "server_error";
  error.code = "internal_error";
  const absl::StatusCode code =
      IsUnfitModel(status) ? absl::StatusCode::kInvalidArgument : status.code();
  for (const Row& row : kRows) {
    if (row.code != code) continue;
    error.status = row.http;
    error.type = row.type;
    error.code = row.name;
  }
  if (error.status < 500) error.param = ParamOf(error.message);
  if (error.status == 404 && error.param == "model") error.code = "model_not_found";
  if (IsTooLong(status)) error.code = "context_length_exceeded";
  if (absl::IsResourceExhausted(status)) {
    const std::optional<int64_t> ms = Pushback(status);
    if (ms && *ms < 0) {
      error.status = 413;
      error.type = "invalid_request_error";
      error.code = "too_large";
    } else {
      error.retry_after_ms = ms.value_or(1000);
    }
  }
  if (error.status == 503) error.retry_after_ms = 1000;
  return error;
}

ApiError ToApiError(const absl::Status& status, const FieldNames& names) {
  ApiError error = ToApiError(status);
  for (const auto& [field, name] : names) {
    if (!error.param.starts_with(field)) continue;
    const char next = error.param.size() == field.size() ? '.' : error.param[field.size()];
    if (next != '.' && next != '[') continue;
    error.param.replace(0, field.size(), name);
    error.message.replace(0, field.size(), name);
    break;
  }
  return error;
}

void RenameInMessage(std::string_view field, std::string_view name, std::string* message) {
  std::string renamed;
  bool quoted = false;
  for (size_t at = 0; at < message->size();) {
    const std::string_view rest = std::string_view(*message).substr(at);
    const bool begins = at == 0 || !IsFieldCharacter((*message)[at - 1]);
    const bool ends = rest.size() <= field.size() || !IsFieldCharacter(rest[field.size()]);
    if (!quoted && begins && ends && rest.starts_with(field)) {
      renamed += name;
      at += field.size();
      continue;
    }
    const size_t length = quoted && rest.front() == '\\' && rest.size() > 1 ? 2 : 1;
    if (rest.front() == '"') quoted = !quoted;
    renamed += rest.substr(0, length);
    at += length;
  }
  *message = std::move(renamed);
}

const FieldNames& SessionFieldNames() {
  static const FieldNames& names = *new FieldNames{{"session.session_id", "session_id"},
                                                   {"session.expected_version", "expected_version"},
                                                   {"session.durability", "durability"},
                                                   {"session.idempotency_key", "Idempotency-Key"},
                                                   {"session", "session_id"},
                                                   {"page_size", "limit"},
                                                   {"page_token", "after"}};
  return names;
}

ApiError HttpError(int status, std::string_view message) {
  ApiError error;
  error.status = status;
  error.message = std::string(message);
  error.type = status < 500 ? "invalid_request_error" : "server_error";
  error.code = status == 404   ? "not_found"
               : status == 405 ? "method_not_allowed"
               : status == 413 ? "too_large"
               : status == 415 ? "unsupported_media_type"
                               : "";
  if (status == 429 || status == 503) error.retry_after_ms = 1000;
  return error;
}

std::string ToJson(const ApiError& error) {
  std::string out = R"({"error":{"message":)";
  AppendJsonString(error.message, &out);
  out += R"(,"type":)";
  AppendJsonString(error.type, &out);
  out += R"(,"param":)";
  if (error.param.empty()) {
    out += "null";
  } else {
    AppendJsonString(error.param, &out);
  }
  out += R"(,"code":)";
  if (error.code.empty()) {
    out += "null";
  } else {
    AppendJsonString(error.code, &out);
  }
  out += "}}";
  return out;
}

}  // namespace tvq::gateway
