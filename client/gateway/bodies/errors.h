// From the status of a call to an HTTP answer with OpenAI's error object.
#ifndef TVQ_CLIENT_GATEWAY_BODIES_ERRORS_H_
#define TVQ_CLIENT_GATEWAY_BODIES_ERRORS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"

namespace tvq::gateway {

struct ApiError {
  int status = 500;  // HTTP
  std::string message;
  std::string type;    // as OpenAI names kinds of errors
  std::string param;   // the field that is wrong; empty: none
  std::string code;    // a word for programs; empty: none
  std::string reason;  // of the table in proto/README.md; empty for an error of HTTP itself
  std::optional<int64_t> retry_after_ms;
};

// As the table in proto/README.md says, with the type and code that OpenAI's service has for it,
// where it has.
ApiError ToApiError(const absl::Status& status);

// What the body calls a field of the server's request.
struct FieldName {
  std::string_view field;
  std::string name;
};
using FieldNames = std::vector<FieldName>;

// The same with the body's name for the field, as param and in the message. The first of `names`
// counts that is the field, or that it is a part of: "token_ids" for "token_ids[3]".
ApiError ToApiError(const absl::Status& status, const FieldNames& names);

// Names a field by `name` wherever `message` mentions it as a whole word outside of quotes, between
// which is what a client sent.
void RenameInMessage(std::string_view field, std::string_view name, std::string* message);

// Those of calls on sessions, and of their list.
const FieldNames& SessionFieldNames();

// An error of HTTP itself.
ApiError HttpError(int status, std::string_view message);

// {"error":{"message":...,"type":...,"param":...,"code":...,"reason":...}}
std::string ToJson(const ApiError& error);

}  // namespace tvq::gateway

#endif  // TVQ_CLIENT_GATEWAY_BODIES_ERRORS_H_
