#include "client/gateway/options.h"

#include <algorithm>
#include <chrono>

#include "absl/strings/str_cat.h"
#include "base/flags.h"
#include "client/cpp/connect.h"
#include "client/gateway/origins.h"

namespace tvq::gateway {
namespace {

// Log, listeners, loops, files that are read, and connections to the server, of which there are at
// most 64, each of which may be looked up and made anew.
constexpr int kOwnDescriptors = 256;

// Seconds on the command line.
flags::Option AddTime(flags::Command app, const std::string& flag, std::chrono::milliseconds& value,
                      const std::string& help) {
  return app
      .AddFunction<double>(
          flag,
          [&value](const double& seconds) {
            value = std::chrono::milliseconds(static_cast<int64_t>(seconds * 1000));
          },
          help)
      .Environment()
      .Within(0.001, 1e6)
      .ShowDefault(static_cast<double>(value.count()) / 1000)
      .TypeName("SECONDS");
}

void AddHttp(flags::Command app, GatewayOptions& options) {
  HttpOptions& http = options.http;
  app.Heading("HTTP");
  app.AddSetting(
         "--host", http.host,
         "Address to listen on, or a name, for all its addresses; 0.0.0.0 or :: for all there are")
      .NotEmpty();
  app.AddSetting("--port", http.port, "Port to listen on; 0: a free one, printed to stdout")
      .Within(0, 65535);
  const flags::Option certificate = app.AddSetting(
      "--ssl-certfile", options.certificate_file,
      "The gateway's certificates in PEM, its own first; empty: no TLS. SIGHUP has it read again");
  const flags::Option key =
      app.AddSetting("--ssl-keyfile", options.key_file, "The key of --ssl-certfile in PEM");
  certificate.Needs(key);
  key.Needs(certificate);
  app.AddSetting(
         "--allowed-origins", options.allowed_origins,
         "Origins of web pages elsewhere that may call, such as https://example.org; *: all")
      .SplitAt(',')
      .Check(WrongOrigin);
  app.AddSetting("--max-connections", http.limits.max_connections, "Connections at once")
      .Within(1, 1'000'000);
  app.AddSetting("--max-connections-per-address", http.limits.max_connections_per_address,
                 "Connections at once of one address, which leaves some to others unless these are "
                 "all; more are closed at once")
      .Within(1, 1'000'000);
  app.AddSizeSetting("--max-header-bytes", http.limits.max_header_bytes,
                     "Largest request line and headers")
      .Within(size_t{1024}, size_t{1} << 20);
  app.AddSizeSetting("--max-body-bytes", options.max_body_bytes, "Largest body, snapshots apart")
      .Within(int64_t{1024}, int64_t{1} << 30);
  app.AddSizeSetting(
         "--max-buffered-bytes", http.max_buffered_bytes,
         "Bodies of all requests on their way in, and answers that are no streams, together")
      .Within(size_t{1} << 20, size_t{1} << 40);
  AddTime(app, "--header-timeout", http.limits.header_timeout, "For the header of a request");
  AddTime(app, "--body-timeout", http.limits.body_timeout,
          "For each MiB of a body; all of it may have that and 8 s for each MiB");
  AddTime(app, "--idle-timeout", http.limits.idle_timeout, "Between the requests of a connection");
  AddTime(app, "--write-timeout", http.limits.write_timeout,
          "For a client to take the next piece of an answer");
}

void AddServer(flags::Command app, GatewayOptions& options) {
  app.Heading("The server behind it");
  app.AddSetting("--server", options.server.address, "Address of tvq-server")
      .TypeName("HOST:PORT")
      .Check(client::WrongAddress);
  app.AddSetting("--server-connections", options.connections,
                 "Connections to it, which calls share")
      .Within(1, 64);
  app.AddFlag("--server-tls", options.server.tls,
              "Use TLS towards it; the files below ask for it too")
      .Environment();
  app.AddSetting("--server-ssl-ca-certs", options.server.ca_file,
                 "PEM file of its certificate's authorities; empty: the system's");
  const flags::Option certificate = app.AddSetting(
      "--server-ssl-certfile", options.server.cert_file, "PEM file of the certificate to show it");
  const flags::Option key =
      app.AddSetting("--server-ssl-keyfile", options.server.key_file, "PEM file of its key");
  certificate.Needs(key);
  key.Needs(certificate);
  AddTime(app, "--refusal-timeout", options.refusal_timeout,
          "For it to refuse a prompt of a stream, once another of the same stream computes");
}

}  // namespace

bool FitToDescriptors(int descriptors, HttpLimits* limits) {
  const int most = std::max(1, descriptors - std::min(kOwnDescriptors, descriptors / 2));
  if (limits->max_connections <= most) return false;
  const int64_t given = limits->max_connections_per_address;
  const int64_t share = given * most / limits->max_connections;
  const int64_t half = std::max(1, most / 2);
  limits->max_connections = most;
  limits->max_connections_per_address = static_cast<int>(std::min(given, std::max(half, share)));
  return true;
}

std::optional<GatewayOptions> ParseOptions(int argc, char** argv, int* exit_code) {
  GatewayOptions options;
  options.http.port = 8000;
  options.server.address = absl::StrCat("127.0.0.1:", client::kDefaultPort);
  const flags::Program app(
      "Speaks HTTP, as OpenAI's clients do, for a tvq-server behind it.\n"
      "Every flag can be given as the environment variable in parentheses; flags win.",
      "tvq-gateway");
  app.Version(TVQ_VERSION);
  AddHttp(app, options);
  AddServer(app, options);
  app.Heading("Stopping, logs and checks");
  app.AddSetting("--shutdown-timeout", options.shutdown_timeout,
                 "Seconds running requests may take to finish after SIGTERM or SIGINT")
      .Within(0.0, 86400.0);
  app.AddSetting("--log-level", options.log_level,
                 "debug (a line for each request), info, warning, error or off")
      .OneOf({"debug", "info", "warning", "error", "off"});
  app.AddFlag("--check", options.check,
              "Ask the gateway that runs with these options whether it is well, and end");
  app.Footer(
      "Exit codes: 0 stopped by a signal, 1 could not listen, 2 wrong usage.\n"
      "Of --check: 0 it is well, 1 it is not.");
  if (const std::optional<int> ends = app.Parse(argc, argv)) {
    *exit_code = *ends;
    return std::nullopt;
  }
  return options;
}

}  // namespace tvq::gateway
