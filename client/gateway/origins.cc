#include "client/gateway/origins.h"

#include <arpa/inet.h>

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/quoted.h"

namespace tvq::gateway {
namespace {

// "https://example.org:80" -> "example.org:80"; empty for what is no origin.
std::string_view HostOf(std::string_view origin) {
  const size_t slashes = origin.find("://");
  return slashes == std::string_view::npos ? std::string_view() : origin.substr(slashes + 3);
}

// Without the port, in small letters; an address of IPv6 without brackets.
std::string NameOf(std::string_view host) {
  if (host.starts_with('[')) {
    host = host.substr(1, std::min(host.find(']'), host.size()) - 1);
  } else if (std::count(host.begin(), host.end(), ':') == 1) {
    host = host.substr(0, host.find(':'));
  }
  return absl::AsciiStrToLower(absl::string_view(host.data(), host.size()));
}

bool IsAddress(const std::string& name) {
  in6_addr address;
  return ::inet_pton(AF_INET, name.c_str(), &address) == 1 ||
         ::inet_pton(AF_INET6, name.c_str(), &address) == 1;
}

bool IsLoopback(const std::string& name) {
  return name == "localhost" || name == "::1" || (name.starts_with("127.") && IsAddress(name));
}

bool Has(const std::vector<std::string>& list, std::string_view wanted) {
  return std::find(list.begin(), list.end(), wanted) != list.end();
}

}  // namespace

std::string WrongOrigin(const std::string& origin) {
  if (origin == "*" || origin == "null") return "";
  const auto wrong = [&](std::string_view must) {
    return absl::StrCat(Quoted(origin), " is no origin, must ", std::string(must));
  };
  const std::string_view host = HostOf(origin);
  if (host.empty() || origin.starts_with(":")) {
    return wrong("be SCHEME://HOST or SCHEME://HOST:PORT, such as https://example.org, or *");
  }
  if (host.find_first_of("/?# @") != std::string_view::npos) {
    return wrong("end with the host or the port");
  }
  if (origin != absl::AsciiStrToLower(origin)) {
    return wrong("be in small letters, as browsers send it");
  }
  if ((origin.starts_with("https://") && absl::EndsWith(origin, ":443")) ||
      (origin.starts_with("http://") && absl::EndsWith(origin, ":80"))) {
    return wrong("be without its scheme's usual port, as browsers send it");
  }
  return "";
}

Origins::Origins(std::string_view host, bool tls, std::vector<std::string> allowed)
    : allowed_(std::move(allowed)),
      any_(Has(allowed_, "*")),
      guards_(!tls && IsLoopback(NameOf(host))) {
  names_.push_back(NameOf(host));
  for (const std::string& origin : allowed_) names_.push_back(NameOf(HostOf(origin)));
}

Origins::Page Origins::Of(std::string_view origin, std::string_view host) const {
  // The browser has seen a certificate for the name of an https page.
  const bool same = !origin.empty() && HostOf(origin) == host;
  if (origin.empty() || (same && (origin.starts_with("https://") || IsKnown(host)))) {
    return Page::kOwn;
  }
  return any_ || Has(allowed_, origin) ? Page::kAllowed : Page::kForeign;
}

bool Origins::IsRebound(std::string_view host) const { return guards_ && !any_ && !IsKnown(host); }

// Nobody owns an address, or a name without a dot such as localhost.
bool Origins::IsKnown(std::string_view host) const {
  const std::string name = NameOf(host);
  return name.find('.') == std::string::npos || IsAddress(name) || Has(names_, name);
}

}  // namespace tvq::gateway
