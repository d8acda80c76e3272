#ifndef TVQ_CLIENT_CPP_CONNECT_H_
#define TVQ_CLIENT_CPP_CONNECT_H_

#include <string>

#include "base/host_port.h"

namespace tvq::client {

// Of a server whose address names none.
inline constexpr int kDefaultPort = 50051;

// Where the server is and how to trust one another.
struct ConnectOptions {
  // HOST or HOST:PORT, also behind http:// or https:// (which asks for TLS); see base/host_port.h.
  std::string address;

  // Sent with every call as a bearer key; printable ASCII. Empty: none. Without TLS whoever sees
  // the traffic sees the key.
  std::string api_key;

  // TLS; any of the files below asks for it too.
  bool tls = false;
  // PEM files. The authorities of the server's certificate; empty: those the system trusts.
  std::string ca_file;
  // The client's certificate and its key, for a server that wants one: both or neither.
  std::string cert_file;
  std::string key_file;
};

// What is wrong with such an address; empty: nothing.
inline std::string WrongAddress(const std::string& address) {
  const auto parsed = ParseServerAddress(address, kDefaultPort);
  return parsed.ok() ? "" : std::string(parsed.status().message());
}

}  // namespace tvq::client

#endif  // TVQ_CLIENT_CPP_CONNECT_H_
