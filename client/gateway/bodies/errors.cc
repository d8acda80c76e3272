#include "client/gateway/bodies/errors.h"

#include <algorithm>
#include <utility>

#include "base/refusal.h"
#include "client/gateway/bodies/json_text.h"

namespace tvq::gateway {
namespace {

// As OpenAI's service has it, where it has.
struct Http {
  int status;
  const char* type;
  const char* code;
};

Http HttpOf(Reason reason) {
  switch (reason) {
    case Reason::kValueInvalid:
    case Reason::kValueMissing:
    case Reason::kValuesConflict:
    case Reason::kTextInvalid:
    case Reason::kMessageInvalid:
    case Reason::kSnapshotInvalid:
    case Reason::kIdempotencyKeyTaken:
    case Reason::kModelUnfit:  // is wrong in the request: clients try 501 again
      return {400, "invalid_request_error", ""};
    case Reason::kContextTooLong:
      return {400, "invalid_request_error", "context_length_exceeded"};
    case Reason::kApiKeyUnknown:
      return {401, "invalid_request_error", "invalid_api_key"};
    case Reason::kPermissionMissing:
      return {403, "permission_error", "permission_denied"};
    case Reason::kModelUnknown:
      return {404, "invalid_request_error", "model_not_found"};
    case Reason::kSessionUnknown:
    case Reason::kMarkUnknown:
      return {404, "invalid_request_error", "not_found"};
    case Reason::kSessionBusy:
    case Reason::kSessionMoved:
    case Reason::kFirstCallRunning:
    case Reason::kVersionConflict:
      return {409, "conflict_error", "conflict"};
    case Reason::kReplyNotKept:
    case Reason::kModelNotServed:
    case Reason::kSnapshotForeign:
    case Reason::kDurabilityMissing:
    case Reason::kTranscriptMissing:
    case Reason::kMarksFull:
    case Reason::kCredentialsInvalid:
    case Reason::kStateTooLarge:
      return {412, "invalid_request_error", "failed_precondition"};
    case Reason::kMessageTooLarge:
    case Reason::kSnapshotTooLarge:
    case Reason::kRequestTooLarge:
      return {413, "invalid_request_error", "too_large"};
    case Reason::kQueueFull:
    case Reason::kMemoryFull:
    case Reason::kSessionsFull:
    case Reason::kCallsFull:
    case Reason::kRateExceeded:
      return {429, "rate_limit_error", "rate_limit_exceeded"};
    case Reason::kCancelled:
      return {499, "cancelled_error", "cancelled"};
    case Reason::kStoredDataDamaged:
      return {500, "server_error", "data_loss"};
    case Reason::kNotFinite:
    case Reason::kInternal:
      return {500, "server_error", "internal_error"};
    case Reason::kSessionsOff:
    case Reason::kMethodUnknown:
      return {501, "server_error", "unimplemented"};
    case Reason::kStopping:
    case Reason::kUnavailable:
      return {503, "server_error", "unavailable"};
    case Reason::kDeadlinePassed:
    case Reason::kClientStalled:
      return {504, "server_error", "deadline_exceeded"};
  }
  return {500, "server_error", "internal_error"};
}

bool IsFieldCharacter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '-' || c == '.' ||
         c == '[' || c == ']';
}

}  // namespace

ApiError ToApiError(const absl::Status& status) {
  const Refusal refusal = RefusalOf(status);
  Http http = HttpOf(refusal.reason);
  // There will never be room for it.
  if (http.status == 429 && refusal.retry == Retry::kNever) http = HttpOf(Reason::kRequestTooLarge);
  ApiError error{.status = http.status,
                 .message = std::string(status.message()),
                 .type = http.type,
                 .code = http.code,
                 .reason = std::string(InfoOf(refusal.reason).name)};
  if (error.status < 500) error.param = refusal.field;
  if (refusal.retry == Retry::kAfter) error.retry_after_ms = refusal.retry_after_ms;
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
  const auto append = [&out](std::string_view name, const std::string& value) {
    out += name;
    if (value.empty()) {
      out += "null";
    } else {
      AppendJsonString(value, &out);
    }
  };
  append(R"(,"param":)", error.param);
  append(R"(,"code":)", error.code);
  append(R"(,"reason":)", error.reason);
  out += "}}";
  return out;
}

}  // namespace tvq::gateway
