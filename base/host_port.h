#ifndef TVQ_BASE_HOST_PORT_H_
#define TVQ_BASE_HOST_PORT_H_

#include <string>

#include "absl/strings/str_cat.h"

namespace tvq {

// HOST:PORT, or [HOST]:PORT of an IPv6 address, with or without its brackets.
inline std::string HostPort(const std::string& host, int port) {
  const bool bare = host.find(':') != std::string::npos && host.front() != '[';
  return bare ? absl::StrCat("[", host, "]:", port) : absl::StrCat(host, ":", port);
}

}  // namespace tvq

#endif  // TVQ_BASE_HOST_PORT_H_
