#ifndef TVQ_CLIENT_GATEWAY_OPTIONS_H_
#define TVQ_CLIENT_GATEWAY_OPTIONS_H_

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "client/cpp/connect.h"
#include "client/gateway/http/server.h"

namespace tvq::gateway {

struct GatewayOptions {
  HttpOptions http;
  std::string certificate_file;  // of the gateway; empty: no TLS
  std::string key_file;
  std::vector<std::string> allowed_origins;  // of pages elsewhere; "*": all
  client::ConnectOptions server;
  int connections = 2;  // to the server
  std::chrono::milliseconds refusal_timeout{1000};
  int64_t max_body_bytes = int64_t{16} << 20;
  double shutdown_timeout = 30;  // seconds
  std::string log_level = "info";
  bool check = false;  // ask a gateway that runs with the same options, instead of being one
};

// Cuts the limits of connections to what so many descriptors leave beside those of the gateway
// itself. One address still has half of them, or what it was given if that is less, or its share
// where it was given more. Returns whether there was something to cut.
bool FitToDescriptors(int descriptors, HttpLimits* limits);

// Flags, then the environment, then defaults. Without a value the program is to end with
// `exit_code`, and has said why.
std::optional<GatewayOptions> ParseOptions(int argc, char** argv, int* exit_code);

}  // namespace tvq::gateway

#endif  // TVQ_CLIENT_GATEWAY_OPTIONS_H_
