#include "client/gateway/http/message.h"

#include <algorithm>
#include <cstddef>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"

namespace tvq::gateway {
namespace {

absl::string_view Absl(std::string_view text) { return {text.data(), text.size()}; }

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

struct Phrase {
  int status;
  std::string_view text;
};

constexpr Phrase kPhrases[] = {{200, "OK"},
                               {201, "Created"},
                               {204, "No Content"},
                               {304, "Not Modified"},
                               {400, "Bad Request"},
                               {401, "Unauthorized"},
                               {403, "Forbidden"},
                               {404, "Not Found"},
                               {405, "Method Not Allowed"},
                               {408, "Request Timeout"},
                               {409, "Conflict"},
                               {411, "Length Required"},
                               {412, "Precondition Failed"},
                               {413, "Content Too Large"},
                               {415, "Unsupported Media Type"},
                               {417, "Expectation Failed"},
                               {429, "Too Many Requests"},
                               {431, "Request Header Fields Too Large"},
                               {499, "Client Closed Request"},
                               {500, "Internal Server Error"},
                               {501, "Not Implemented"},
                               {503, "Service Unavailable"},
                               {504, "Gateway Timeout"},
                               {505, "HTTP Version Not Supported"}};

}  // namespace

std::string_view Request::Find(std::string_view name) const {
  for (const Header& header : headers) {
    if (absl::EqualsIgnoreCase(Absl(header.name), Absl(name))) return header.value;
  }
  return {};
}

int Request::Count(std::string_view name) const {
  return static_cast<int>(std::count_if(headers.begin(), headers.end(), [&](const Header& header) {
    return absl::EqualsIgnoreCase(Absl(header.name), Absl(name));
  }));
}

std::string_view ReasonPhrase(int status) {
  for (const Phrase& phrase : kPhrases) {
    if (phrase.status == status) return phrase.text;
  }
  return {};
}

bool PercentDecode(std::string_view text, bool plus, std::string* out) {
  out->clear();
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '+' && plus) {
      out->push_back(' ');
    } else if (text[i] != '%') {
      out->push_back(text[i]);
    } else {
      const int high = i + 2 < text.size() ? HexDigit(text[i + 1]) : -1;
      const int low = i + 2 < text.size() ? HexDigit(text[i + 2]) : -1;
      if (high < 0 || low < 0) return false;
      out->push_back(static_cast<char>(high * 16 + low));
      i += 2;
    }
  }
  return true;
}

bool ParseQuery(std::string_view query, QueryFields* fields) {
  while (!query.empty()) {
    const std::string_view field = query.substr(0, query.find('&'));
    query.remove_prefix(std::min(query.size(), field.size() + 1));
    if (field.empty()) continue;
    const size_t equals = std::min(field.find('='), field.size());
    std::string name, value;
    if (!PercentDecode(field.substr(0, equals), true, &name) ||
        !PercentDecode(field.substr(std::min(field.size(), equals + 1)), true, &value)) {
      return false;
    }
    fields->emplace_back(std::move(name), std::move(value));
  }
  return true;
}

}  // namespace tvq::gateway
