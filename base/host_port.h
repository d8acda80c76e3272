// Addresses of servers as people write them.
#ifndef TVQ_BASE_HOST_PORT_H_
#define TVQ_BASE_HOST_PORT_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace tvq {

// HOST:PORT, or [HOST]:PORT of an IPv6 address, with or without its brackets.
std::string HostPort(const std::string& host, int port);

// Whether a connection to a host, HOST:PORT or [HOST]:PORT goes to this machine for certain:
// localhost, 127.x.x.x, ::1, 0.0.0.0, ::, also behind gRPC's dns:, ipv4: and ipv6:, or a Unix
// socket (unix:PATH).
bool IsLoopback(std::string_view address);

struct ServerAddress {
  std::string address;  // HOST:PORT, or what else gRPC takes: unix:PATH, dns:///NAME:PORT
  bool tls = false;     // it was written with https://
};

// Takes HOST, HOST:PORT and either behind http:// or https:// in any case, also with a / at its
// end. A port that is missing is `default_port`. INVALID_ARGUMENT for anything else.
absl::StatusOr<ServerAddress> ParseServerAddress(std::string_view text, int default_port);

}  // namespace tvq

#endif  // TVQ_BASE_HOST_PORT_H_
