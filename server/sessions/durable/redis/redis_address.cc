#include "server/sessions/durable/redis/redis_address.h"

#include <cstddef>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace tvq {
namespace {

// The URL itself may hold a password, so messages do not show it.
absl::Status Malformed(std::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(
      "Redis URL: ", std::string(what),
      "; expected redis://[user:password@]host[:port][/database] or unix://[user:password@]/path"));
}

bool TakePrefix(std::string_view prefix, std::string_view* text) {
  if (!text->starts_with(prefix)) return false;
  text->remove_prefix(prefix.size());
  return true;
}

absl::StatusOr<std::string> Unescape(std::string_view text) {
  std::string plain;
  while (!text.empty()) {
    if (text[0] != '%') {
      plain += text[0];
      text.remove_prefix(1);
      continue;
    }
    int byte = 0;
    if (text.size() < 3 || !absl::SimpleHexAtoi(std::string(text.substr(1, 2)), &byte)) {
      return Malformed("a % in user or password that no two hexadecimal digits follow");
    }
    plain += static_cast<char>(byte);
    text.remove_prefix(3);
  }
  return plain;
}

absl::Status TakeLogin(std::string_view* rest, RedisAddress* address) {
  const size_t at = rest->rfind('@');
  if (at == std::string_view::npos) return absl::OkStatus();
  const std::string_view login = rest->substr(0, at);
  const size_t colon = login.find(':');
  if (colon == std::string_view::npos) return Malformed("a user without a password");
  absl::StatusOr<std::string> user = Unescape(login.substr(0, colon));
  if (!user.ok()) return user.status();
  absl::StatusOr<std::string> password = Unescape(login.substr(colon + 1));
  if (!password.ok()) return password.status();
  if (password->empty()) return Malformed("an empty password");
  address->user = *std::move(user);
  address->password = *std::move(password);
  rest->remove_prefix(at + 1);
  return absl::OkStatus();
}

absl::Status ReadPort(std::string_view text, int* port) {
  if (!absl::SimpleAtoi(std::string(text), port) || *port < 1 || *port > 65535) {
    return Malformed("a port that is no number from 1 to 65535");
  }
  return absl::OkStatus();
}

absl::Status ReadHostAndPort(std::string_view text, RedisAddress* address) {
  std::string_view port;
  if (TakePrefix("[", &text)) {
    const size_t end = text.find(']');
    if (end == std::string_view::npos) return Malformed("an IPv6 address without its ]");
    port = text.substr(end + 1);
    text = text.substr(0, end);
    if (!port.empty() && !TakePrefix(":", &port)) return Malformed("text after an IPv6 address");
  } else if (const size_t colon = text.find(':'); colon != std::string_view::npos) {
    port = text.substr(colon + 1);
    text = text.substr(0, colon);
  }
  if (text.empty()) return Malformed("no host");
  address->host = std::string(text);
  return port.empty() ? absl::OkStatus() : ReadPort(port, &address->port);
}

}  // namespace

std::string RedisAddress::Display() const {
  if (host.empty()) return absl::StrCat("unix://", socket_path);
  const bool bracketed = host.find(':') != std::string::npos;
  return absl::StrCat("redis://", bracketed ? "[" : "", host, bracketed ? "]" : "", ":", port, "/",
                      database);
}

absl::StatusOr<RedisAddress> ParseRedisUrl(const std::string& url) {
  std::string_view rest = url;
  RedisAddress address;
  if (TakePrefix("rediss://", &rest)) {
    return absl::InvalidArgumentError(
        "Redis URL: rediss:// (TLS) is not supported; use redis:// through a tunnel such as "
        "stunnel, "
        "or unix://");
  }
  if (TakePrefix("unix://", &rest)) {
    if (!rest.starts_with('/')) {  // an @ in the path is its own
      if (absl::Status status = TakeLogin(&rest, &address); !status.ok()) return status;
    }
    if (rest.size() < 2 || rest[0] != '/') return Malformed("no absolute path of a socket");
    address.socket_path = std::string(rest);
    return address;
  }
  if (!TakePrefix("redis://", &rest)) return Malformed("another scheme than redis:// and unix://");
  if (absl::Status status = TakeLogin(&rest, &address); !status.ok()) return status;
  if (const size_t slash = rest.find('/'); slash != std::string_view::npos) {
    const std::string database(rest.substr(slash + 1));
    if (!database.empty() &&
        (!absl::SimpleAtoi(database, &address.database) || address.database < 0)) {
      return Malformed("a database that is no number");
    }
    rest = rest.substr(0, slash);
  }
  if (absl::Status status = ReadHostAndPort(rest, &address); !status.ok()) return status;
  return address;
}

}  // namespace tvq
