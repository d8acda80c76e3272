#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <string>

#include "absl/synchronization/mutex.h"
#include "base/descriptors.h"
#include "base/hold_hang_ups.h"
#include "base/variables.h"
#include "client/cpp/grpc_log.h"
#include "client/gateway/http/probe.h"
#include "client/gateway/options.h"
#include "client/gateway/serve.h"

namespace tvq::gateway {
namespace {

int Check(const GatewayOptions& options) {
  // On Linux a connection to 0.0.0.0 or :: goes to this machine.
  const absl::Status status = Probe({.host = options.http.host,
                                     .port = options.http.port,
                                     .tls = !options.certificate_file.empty(),
                                     .path = "/v1/health/live"},
                                    std::chrono::seconds(4));
  if (status.ok()) return 0;
  std::fprintf(stderr, "tvq-gateway: %s:%d: %s\n", options.http.host.c_str(), options.http.port,
               std::string(status.message()).c_str());
  return 1;
}

}  // namespace
}  // namespace tvq::gateway

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGHUP, SIG_IGN);  // until Serve hears it: no file has been read yet
  tvq::client::SilenceGrpc();
  tvq::ReleaseHangUps();
  // Debian builds Abseil with the checks of debug builds: a search for deadlocks at every lock.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  int exit_code = 0;
  auto options = tvq::gateway::ParseOptions(argc, argv, &exit_code);
  if (!options) return exit_code;
  if (options->check) return tvq::gateway::Check(*options);
  spdlog::set_default_logger(spdlog::stderr_color_mt("tvq-gateway"));
  spdlog::set_level(spdlog::level::from_str(options->log_level));
  for (const std::string& unknown : tvq::UnknownVariables(environ)) spdlog::warn("{}", unknown);
  tvq::gateway::HttpLimits& limits = options->http.limits;
  const int descriptors = tvq::RaiseDescriptorLimit();  // a connection is a file
  if (tvq::gateway::FitToDescriptors(descriptors, &limits)) {
    spdlog::info("at most {} connections, {} of one address, for {} files may be open (ulimit -n)",
                 limits.max_connections, limits.max_connections_per_address, descriptors);
  }
  return tvq::gateway::Serve(*options);
}
