// The load test's reader of a gateway's stream: events cut anywhere are the same events, and what
// is read of each is within bounds.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "client/loadtest/http/answers.h"
#include "client/loadtest/http/sse_parser.h"
#include "client/loadtest/http/url.h"

namespace tvq::loadtest {
namespace {

std::vector<std::string> Events(std::string_view stream, size_t step) {
  SseParser parser;
  std::vector<std::string> events;
  for (size_t begin = 0; begin < stream.size(); begin += step) {
    parser.Feed(stream.substr(begin, step),
                [&](std::string_view data) { events.emplace_back(data); });
  }
  return events;
}

}  // namespace
}  // namespace tvq::loadtest

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tvq::loadtest;  // NOLINT(google-build-using-namespace)
  const std::string input(reinterpret_cast<const char*>(data), size);
  const auto whole = Events(input, size + 1);
  if (whole != Events(input, 1) || whole != Events(input, 7)) std::abort();
  for (const std::string& event : whole) {
    const CompletionEvent read = ReadCompletionEvent(event);
    if (read.tokens < 0 || static_cast<size_t>(read.tokens) > event.size()) std::abort();
  }
  ErrorMessage(input);
  const size_t half = size / 2;
  const auto wait = RetryAfterOf(input.substr(0, half), input.substr(half));
  if (wait && *wait < 0) std::abort();
  if (const auto url = ParseUrl(input); url.ok() && url->host.empty()) std::abort();
  return 0;
}
