// tvq-server: loads models, serves them, stops gracefully.
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <memory>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "base/descriptors.h"
#include "base/host_port.h"
#include "base/memory_return.h"
#include "base/output_file.h"
#include "base/variables.h"
#include "kernels/device/device.h"
#include "server/engine/engine.h"
#include "server/rpc/calls/credentials.h"
#include "server/rpc/services/server.h"
#include "server/startup/drain.h"
#include "server/startup/flags.h"
#include "server/startup/hang_ups.h"
#include "server/startup/load_models.h"
#include "server/startup/logs.h"
#include "server/startup/open_sessions.h"
#include "server/startup/plan_memory.h"
#include "server/startup/serve_metrics.h"
#include "server/startup/shutdown_signals.h"
#include "server/startup/watchdog.h"

namespace {

absl::StatusOr<std::unique_ptr<tvq::Engine>> StartEngine(std::vector<tvq::ServedModel> models,
                                                         const tvq::EngineOptions& options) {
  auto engine = tvq::Engine::Create(std::move(models), options);
  if (!engine.ok()) return engine;
  for (const tvq::ServedModel& model : (*engine)->models()) {
    const auto capacity = (*engine)->Capacity(model.name);
    if (!capacity.ok()) return capacity.status();
    spdlog::info("{}", tvq::Describe(model, *capacity));
  }
  return engine;
}

const char* CauseOf(const tvq::Shutdown& shutdown) {
  if (shutdown.signal == 0) return "AdminService.Drain";
  return shutdown.signal == SIGTERM ? "SIGTERM" : "SIGINT";
}

std::chrono::nanoseconds TimeoutOf(const tvq::Shutdown& shutdown, const tvq::Flags& flags) {
  if (shutdown.order.timeout) return *shutdown.order.timeout;
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
      std::chrono::duration<double>(flags.shutdown_timeout));
}

std::unique_ptr<tvq::Watchdog> StartWatchdog(const tvq::Flags& flags, const tvq::Engine& engine,
                                             tvq::Server& server) {
  const auto on_change = [&, timeout = flags.watchdog_timeout](bool progressing) {
    server.SetProgressing(progressing);
    if (const auto health = engine.Health(); !health.ok()) {
      return spdlog::critical(
          "{}: nothing is computed any more; sessions in host memory and on "
          "the durable tier can still be exported",
          std::string(health.message()));
    }
    if (progressing) return spdlog::info("the engine makes progress again");
    spdlog::error("the engine's step has been running for more than {} s: not healthy", timeout);
  };
  return std::make_unique<tvq::Watchdog>(
      tvq::Watchdog::Watched{.step_began = [&engine] { return engine.stats().step_began; },
                             .now = std::chrono::steady_clock::now,
                             .health = [&engine] { return engine.Health(); },
                             .on_change = on_change},
      std::chrono::duration_cast<std::chrono::nanoseconds>(
          std::chrono::duration<double>(flags.watchdog_timeout)));
}

// One line in the log, also where there is nothing to read: whoever sent the signal looks for it.
void Reload(tvq::Credentials& credentials) {
  if (!credentials.has_files()) {
    return spdlog::info(
        "SIGHUP: this server has no file of keys and no certificates to read again");
  }
  const auto reloaded = credentials.Reload();
  if (reloaded.ok()) return spdlog::info("SIGHUP: credentials read again: {}", Describe(*reloaded));
  spdlog::warn("SIGHUP: credentials read again, the old ones stay: {}",
               std::string(reloaded.status().message()));
}

// Serves until a signal has come and what ran is done.
absl::Status Run(const tvq::Flags& flags, tvq::ShutdownSignals& signals, tvq::HangUps& hang_ups) {
  auto made = tvq::MakeDevice(flags.device, flags.threads, flags.tf32 ? "tf32" : "");
  if (!made.ok()) return made.status();
  const std::shared_ptr<tvq::Device> device = *std::move(made);
  spdlog::info("computing on {}", device->Describe());
  auto models = tvq::LoadModels(flags, device);
  if (!models.ok()) return models.status();
  const auto memory = tvq::PlanMemory(*models, flags);
  if (!memory.ok()) return memory.status();
  tvq::EngineOptions engine_options = flags.engine;
  engine_options.state_memory_bytes = memory->device;
  auto engine = StartEngine(*std::move(models), engine_options);
  if (!engine.ok()) return engine.status();

  tvq::SessionFlags session_flags = flags.sessions;
  session_flags.options.host_bytes = memory->host;
  session_flags.options.prefix_scope =
      absl::StrCat(TVQ_VERSION, ", ", TVQ_BUILD, ", ", device->Describe(),
                   flags.server.gate.api_key_file.empty() ? ", one owner" : ", keys");
  auto sessions = tvq::OpenSessions(engine->get(), session_flags);
  if (!sessions.ok()) return sessions.status();

  tvq::ServerOptions options = flags.server;
  options.stall_timeout = flags.engine.paused_timeout;
  options.max_descriptors = tvq::RaiseDescriptorLimit();
  options.log_call = tvq::CallLog(flags.logs);
  options.drain = [&](const tvq::DrainOrder& order) { signals.Order(order); };
  auto server = tvq::Server::Start(engine->get(), sessions->get(),
                                   {TVQ_VERSION, TVQ_BUILD, device->Describe()}, options);
  if (!server.ok()) return server.status();
  tvq::WarnOfUnreachable(**sessions, flags.server.gate.api_key_file);
  const auto metrics = tvq::ServeMetrics(
      flags, {.engine = engine->get(), .sessions = sessions->get(), .server = server->get()});
  if (!metrics.ok()) return metrics.status();
  hang_ups.Call([&] { Reload((*server)->credentials()); });
  const absl::Cleanup deaf = [&] { hang_ups.Call(nullptr); };  // ahead of the server's end
  signals.Arm();
  // Scripts read this line, for the port.
  const std::string address = tvq::HostPort(flags.server.host, (*server)->port());
  std::printf("listening on %s\n", address.c_str());
  if (const absl::Status told = tvq::FlushStdout(); !told.ok()) {
    spdlog::warn("listening on {}, but {}", address, std::string(told.message()));
  }

  const auto watchdog = StartWatchdog(flags, **engine, **server);
  const tvq::MemoryReturn memory_return;

  std::stop_source now;
  const tvq::Shutdown shutdown = signals.Wait([&] {
    now.request_stop();
    (*engine)->Drain(std::chrono::steady_clock::now());
  });
  const std::chrono::nanoseconds timeout = TimeoutOf(shutdown, flags);
  spdlog::info("{}: running requests may finish within {} s; a second signal ends them now",
               CauseOf(shutdown), std::chrono::duration<double>(timeout).count());
  tvq::Drain({.engine = **engine,
              .sessions = **sessions,
              .server = **server,
              .timeout = timeout,
              .stores = !flags.sessions.dir.empty() || !flags.sessions.redis.empty()},
             now.get_token());
  signals.Disarm();
  spdlog::info("stopped");
  return absl::OkStatus();
}

}  // namespace

int main(int argc, char** argv) {
  tvq::ShutdownSignals signals;  // before any thread starts, and so is the other one
  tvq::HangUps hang_ups;         // takes also what came since the process began (hold_hang_ups.h)
  std::signal(SIGPIPE, SIG_IGN);
  // Debian builds Abseil with the checks of debug builds: a search for deadlocks at every lock.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  int exit_code = 0;
  const auto flags = tvq::ParseFlags(argc, argv, &exit_code);
  if (!flags) return exit_code;
  tvq::SetUpLogs(flags->logs);
  for (const std::string& unknown : tvq::UnknownVariables(environ)) spdlog::warn("{}", unknown);
  const absl::Status status = Run(*flags, signals, hang_ups);
  if (status.ok()) return 0;
  spdlog::critical("{}", std::string(status.message()));
  return 1;
}
