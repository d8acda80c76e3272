#include "client/gateway/options.h"

#include <CLI/CLI.hpp>
#include <chrono>

#include "base/flags.h"

namespace tvq::gateway {
namespace {

using flags::Add;
using flags::AddSize;
using flags::EnvironmentName;

constexpr int kUsageError = 2;

// Seconds on the command line.
CLI::Option* AddTime(CLI::App& app, const std::string& flag, std::chrono::milliseconds& value,
                     const std::string& help) {
  return app
      .add_option_function<double>(
          flag,
          [&value](const double& seconds) {
            value = std::chrono::milliseconds(static_cast<int64_t>(seconds * 1000));
          },
          help)
      ->envname(EnvironmentName(flag))
      ->check(CLI::Range(0.001, 1e6))
      ->default_str(CLI::detail::to_string(static_cast<double>(value.count()) / 1000))
      ->type_name("SECONDS");
}

void AddHttp(CLI::App& app, GatewayOptions& options) {
  HttpOptions& http = options.http;
  Add(app, "--host", http.host,
      "Address to listen on, or a name, for all its addresses; 0.0.0.0 or :: for all there are");
  Add(app, "--port", http.port, "Port to listen on; 0: a free one, printed to stdout")
      ->check(CLI::Range(0, 65535));
  CLI::Option* const certificate =
      Add(app, "--ssl-certfile", options.certificate_file,
          "The gateway's certificates in PEM, its own first; empty: no TLS. SIGHUP has it "
          "read again");
  CLI::Option* const key =
      Add(app, "--ssl-keyfile", options.key_file, "The key of --ssl-certfile in PEM");
  certificate->needs(key);
  key->needs(certificate);
  Add(app, "--allowed-origins", options.allowed_origins,
      "Origins of web pages elsewhere that may call, such as https://example.org; *: all")
      ->delimiter(',');
  Add(app, "--max-connections", http.limits.max_connections, "Connections at once")
      ->check(CLI::Range(1, 1'000'000));
  Add(app, "--max-connections-per-address", http.limits.max_connections_per_address,
      "Connections at once of one address; more are closed at once")
      ->check(CLI::Range(1, 1'000'000));
  AddSize(app, "--max-header-bytes", http.limits.max_header_bytes,
          "Largest request line and headers")
      ->check(CLI::Range(size_t{1024}, size_t{1} << 20));
  AddSize(app, "--max-body-bytes", options.max_body_bytes, "Largest body, snapshots apart")
      ->check(CLI::Range(int64_t{1024}, int64_t{1} << 30));
  AddSize(app, "--max-buffered-bytes", http.max_buffered_bytes,
          "Bodies of all requests on their way in, and answers that are no streams, together")
      ->check(CLI::Range(size_t{1} << 20, size_t{1} << 40));
  AddTime(app, "--header-timeout", http.limits.header_timeout, "For the header of a request");
  AddTime(app, "--body-timeout", http.limits.body_timeout,
          "For each MiB of a body; all of it may have that and 8 s for each MiB");
  AddTime(app, "--idle-timeout", http.limits.idle_timeout, "Between the requests of a connection");
  AddTime(app, "--write-timeout", http.limits.write_timeout,
          "For a client to take the next piece of an answer");
}

void AddServer(CLI::App& app, GatewayOptions& options) {
  Add(app, "--server", options.server.address, "Address of tvq-server")->type_name("HOST:PORT");
  Add(app, "--server-connections", options.connections, "Connections to it, which calls share")
      ->check(CLI::Range(1, 64));
  app.add_flag("--server-tls", options.server.tls,
               "Use TLS towards it; the files below ask for it too")
      ->envname("TVQ_SERVER_TLS");
  Add(app, "--server-ssl-ca-certs", options.server.ca_file,
      "PEM file of who signed its certificate; empty: the system's authorities");
  Add(app, "--server-ssl-certfile", options.server.cert_file,
      "PEM file of the certificate to show it");
  Add(app, "--server-ssl-keyfile", options.server.key_file, "PEM file of its key");
  AddTime(app, "--refusal-timeout", options.refusal_timeout,
          "For it to refuse a prompt of a stream, once another of the same stream computes");
}

}  // namespace

std::optional<GatewayOptions> ParseOptions(int argc, char** argv, int* exit_code) {
  GatewayOptions options;
  options.http.port = 8000;
  options.server.address = "127.0.0.1:50051";
  CLI::App app(
      "Speaks HTTP, as OpenAI's clients do, for a tvq-server behind it.\n"
      "Every flag can be given as the environment variable in parentheses; flags win.",
      "tvq-gateway");
  app.set_version_flag("--version", TVQ_VERSION);
  AddHttp(app, options);
  AddServer(app, options);
  Add(app, "--shutdown-timeout", options.shutdown_timeout,
      "Seconds running requests may take to finish after SIGTERM or SIGINT")
      ->check(CLI::Range(0.0, 86400.0));
  Add(app, "--log-level", options.log_level,
      "debug (a line for each request), info, warning, error")
      ->check(CLI::IsMember({"debug", "info", "warning", "error", "off"}));
  app.add_flag("--check", options.check,
               "Ask the gateway that runs with these options whether it is well, and end");
  app.footer(
      "Exit codes: 0 stopped by a signal, 1 could not listen, 2 wrong usage.\n"
      "Of --check: 0 it is well, 1 it is not.");
  flags::RefuseEmptyNumbers(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    *exit_code = app.exit(e) == 0 ? 0 : kUsageError;
    return std::nullopt;
  }
  return options;
}

}  // namespace tvq::gateway
