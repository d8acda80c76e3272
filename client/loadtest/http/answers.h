// What the gateway answers, as far as a load test wants to know.
#ifndef TVQ_CLIENT_LOADTEST_HTTP_ANSWERS_H_
#define TVQ_CLIENT_LOADTEST_HTTP_ANSWERS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "client/loadtest/workload/time.h"

namespace tvq::loadtest {

// An event of a streamed completion.
struct CompletionEvent {
  // How many token_ids the event has. Without token_ids: 1 if it has text, as it does not say how
  // many tokens that is.
  int64_t tokens = 0;
  bool done = false;  // [DONE]
  struct Usage {
    int64_t prompt_tokens = 0, cached_tokens = 0, completion_tokens = 0;
  };
  std::optional<Usage> usage;
  std::optional<std::string> error;  // its message
};

// Searches for the keys that it wants, and parses JSON only if there is a usage or an error. So the
// event of a token costs tens of nanoseconds instead of microseconds. Text cannot be taken for a
// key: its quotes are escaped.
CompletionEvent ReadCompletionEvent(std::string_view data);

// The message in OpenAI's error object; the body itself, shortened, if it is none.
std::string ErrorMessage(const std::string& body);

// Of the headers retry-after-ms (milliseconds) and Retry-After (seconds); empty: absent.
std::optional<Nanos> RetryAfterOf(std::string_view milliseconds, std::string_view seconds);

}  // namespace tvq::loadtest

#endif  // TVQ_CLIENT_LOADTEST_HTTP_ANSWERS_H_
