// From the status of a call to an HTTP answer with OpenAI's error object.
#ifndef TVQ_CLIENT_GATEWAY_OPENAI_ERRORS_H_
#define TVQ_CLIENT_GATEWAY_OPENAI_ERRORS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace tvq::gateway {

struct ApiError {
  int status = 500;  // HTTP
  std::string message;
  std::string type;   // as OpenAI names kinds of errors
  std::string param;  // the field that is wrong; empty: none
  std::string code;   // a word for programs; empty: none
  std::optional<int64_t> retry_after_ms;
};

// As the table in proto/README.md says. The field comes from the message, which names it first:
// "max_tokens: ...".
ApiError ToApiError(const absl::Status& status);

// An error of HTTP itself.
ApiError HttpError(int status, std::string_view message);

// {"error":{"message":...,"type":...,"param":...,"code":...}}
std::string ToJson(const ApiError& error);

}  // namespace tvq::gateway

#endif  // TVQ_CLIENT_GATEWAY_OPENAI_ERRORS_H_
