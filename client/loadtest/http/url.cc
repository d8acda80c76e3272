#include "client/loadtest/http/url.h"

#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace tvq::loadtest {
namespace {

// What may stand in a host or a path without being taken for something else.
bool Plain(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) {
    return c > ' ' && c <= '~' && c != '@' && c != '?' && c != '#';
  });
}

}  // namespace

std::string Url::authority() const {
  const bool bare = host.find(':') == host.npos;
  return absl::StrCat(bare ? "" : "[", host, bare ? ":" : "]:", port);
}

absl::StatusOr<Url> ParseUrl(std::string_view text) {
  const absl::Status wrong = absl::InvalidArgumentError(
      absl::StrCat("\"", std::string(text), "\" must be http://HOST[:PORT][/PREFIX], or https"));
  Url url;
  std::string_view rest = text;
  if (rest.starts_with("http://")) {
    rest.remove_prefix(7);
  } else if (rest.starts_with("https://")) {
    rest.remove_prefix(8);
    url.tls = true;
  } else {
    return wrong;
  }
  const size_t slash = std::min(rest.find('/'), rest.size());
  std::string_view authority = rest.substr(0, slash), prefix = rest.substr(slash);
  while (prefix.ends_with('/')) prefix.remove_suffix(1);
  if (!Plain(authority) || !Plain(prefix)) return wrong;
  url.prefix = prefix;

  const size_t bracket = authority.find(']');
  const size_t colon = authority.find(':', authority.starts_with('[') ? bracket : 0);
  url.host = authority.substr(0, colon);
  if (url.host.starts_with('[')) {
    if (!url.host.ends_with(']')) return wrong;
    url.host = url.host.substr(1, url.host.size() - 2);
  }
  url.port = colon == authority.npos ? (url.tls ? "443" : "80") : authority.substr(colon + 1);
  int port = 0;
  if (url.host.empty() || !absl::SimpleAtoi(url.port, &port) || port < 1 || port > 65535) {
    return wrong;
  }
  return url;
}

}  // namespace tvq::loadtest
