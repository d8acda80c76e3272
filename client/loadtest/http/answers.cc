#include "client/loadtest/http/answers.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "absl/strings/numbers.h"

namespace tvq::loadtest {
namespace {

using Json = nlohmann::json;

constexpr size_t kMaxMessage = 300;

// What follows `key` (with its quotes) and a colon; empty if there is no such key.
std::string_view ValueAfter(std::string_view data, std::string_view key) {
  const size_t found = data.find(key);
  if (found == data.npos) return "";
  std::string_view rest = data.substr(found + key.size());
  const auto skip = [&] {
    while (rest.starts_with(' ')) rest.remove_prefix(1);
  };
  skip();
  if (!rest.starts_with(':')) return "";
  rest.remove_prefix(1);
  skip();
  return rest;
}

// The number at a path in JSON of any form; 0 if there is none.
int64_t Number(const Json& json, const char* key) {
  const auto it = json.is_object() ? json.find(key) : json.end();
  return it != json.end() && it->is_number_integer() ? it->get<int64_t>() : 0;
}

// Of a list that `text` begins with.
int64_t CountNumbers(std::string_view text) {
  const std::string_view list = text.substr(0, text.find(']'));
  const bool empty = list.find_first_of("0123456789") == list.npos;
  return empty ? 0 : 1 + std::count(list.begin(), list.end(), ',');
}

}  // namespace

CompletionEvent ReadCompletionEvent(std::string_view data) {
  CompletionEvent event;
  if (data == "[DONE]") {
    event.done = true;
    return event;
  }
  const std::string_view text = ValueAfter(data, R"("text")");
  const std::string_view ids = ValueAfter(data, R"("token_ids")");
  if (ids.starts_with('[')) {
    event.tokens = CountNumbers(ids);
  } else {
    event.tokens = text.starts_with('"') && !text.starts_with(R"("")") ? 1 : 0;
  }
  const bool has_usage = ValueAfter(data, R"("usage")").starts_with('{');
  const bool has_error = ValueAfter(data, R"("error")").starts_with('{');
  if (has_error) event.error = ErrorMessage(std::string(data));
  if (has_usage) {
    const Json json = Json::parse(data, nullptr, /*allow_exceptions=*/false);
    const auto usage = json.is_object() ? json.find("usage") : json.end();
    if (usage != json.end() && usage->is_object()) {
      const auto details = usage->find("prompt_tokens_details");
      event.usage = {
          .prompt_tokens = Number(*usage, "prompt_tokens"),
          .cached_tokens = details == usage->end() ? 0 : Number(*details, "cached_tokens"),
          .completion_tokens = Number(*usage, "completion_tokens")};
    }
  }
  return event;
}

std::string ErrorMessage(const std::string& body) {
  const Json json = Json::parse(body, nullptr, /*allow_exceptions=*/false);
  if (json.is_object() && json.contains("error") && json["error"].is_object()) {
    const auto message = json["error"].find("message");
    if (message != json["error"].end() && message->is_string()) return *message;
  }
  return body.substr(0, kMaxMessage);
}

std::optional<Nanos> RetryAfterOf(std::string_view milliseconds, std::string_view seconds) {
  double value = 0;
  constexpr double kMax = 86'400;  // seconds
  if (absl::SimpleAtod(std::string(milliseconds), &value) && value >= 0 && value <= kMax * 1000) {
    return FromSeconds(value / 1000);
  }
  if (absl::SimpleAtod(std::string(seconds), &value) && value >= 0 && value <= kMax) {
    return FromSeconds(value);
  }
  return std::nullopt;
}

}  // namespace tvq::loadtest
