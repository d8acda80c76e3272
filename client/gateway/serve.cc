#include "client/gateway/serve.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

#include "base/host_port.h"
#include "base/output_file.h"
#include "client/gateway/gateway.h"
#include "client/gateway/heap_trimmer.h"
#include "client/gateway/http/server.h"
#include "client/gateway/http/tls_files.h"
#include "client/gateway/upstream/call.h"

namespace tvq::gateway {
namespace {

// Long bodies and answers may take a quarter of the cores.
int SideThreadCount() {
  return std::clamp(static_cast<int>(std::thread::hardware_concurrency()) / 4, 1, 4);
}

// For calls that were cancelled to end.
constexpr std::chrono::seconds kCallsEnd{5};

// A line now and then, for as long as it lasts.
class Shortage {
 public:
  void operator()(std::string_view why) {
    const auto now = std::chrono::steady_clock::now();
    if (now < next_line_) return;
    next_line_ = now + kBetweenLines;
    spdlog::warn("clients wait for a connection: {}", why);
  }

 private:
  static constexpr std::chrono::seconds kBetweenLines{10};
  std::chrono::steady_clock::time_point next_line_;
};

// Of a name that stands for several addresses.
void TellAddresses(const std::string& host, const Listeners& listeners) {
  for (const auto& endpoint : listeners.unavailable) {
    spdlog::warn("{} is also {}, an address that this machine does not have", host,
                 endpoint.address().to_string());
  }
  if (listeners.acceptors.size() == 1) return;
  for (const auto& acceptor : listeners.acceptors) {
    const auto endpoint = acceptor.local_endpoint();
    spdlog::info("{}: listening on {}", host,
                 HostPort(endpoint.address().to_string(), endpoint.port()));
  }
}

void TellCertificates(const absl::Status& changed) {
  if (changed.ok()) {
    spdlog::info("new certificates are in use");
  } else {
    spdlog::warn("the certificates in use stay: {}", std::string(changed.message()));
  }
}

// SIGHUP, from an operator who changed files, or from a terminal that was closed. One line in the
// log, also where there is nothing to read: whoever sent the signal looks for it.
class HangUps {
 public:
  HangUps(asio::io_context& loop, std::optional<TlsFiles>& tls)
      : tls_(tls), signals_(loop, SIGHUP) {
    Wait();
  }

  // Of the loop, which ends when nothing waits any more. One that has come may be answered still.
  void Stop() {
    stopped_ = true;
    signals_.cancel();
  }

 private:
  void Wait() {
    signals_.async_wait([this](const ErrorCode& error, int) {
      if (error) return;
      Reload();
      if (!stopped_) Wait();
    });
  }

  void Reload() {
    if (!tls_) return spdlog::info("SIGHUP: this gateway has no certificates to read again");
    const absl::Status read = tls_->Reload();
    if (read.ok()) return spdlog::info("SIGHUP: the certificates were read again");
    spdlog::warn("SIGHUP: the certificates were read again, those in use stay: {}",
                 std::string(read.message()));
  }

  std::optional<TlsFiles>& tls_;
  asio::signal_set signals_;
  bool stopped_ = false;
};

// The first signal lets requests finish for a time, the second ends them.
class Shutdown {
 public:
  // `hang_ups` and `watch` are stopped when the server has.
  Shutdown(asio::io_context& loop, HttpServer& server, double timeout, HangUps& hang_ups,
           ServerWatch& watch)
      : server_(server),
        timeout_(timeout),
        hang_ups_(hang_ups),
        watch_(watch),
        signals_(loop, SIGINT, SIGTERM),
        timer_(loop) {
    Wait();
  }

 private:
  void Wait() {
    signals_.async_wait([this](const ErrorCode& error, int) {
      if (error) return;
      if (stopping_) {
        server_.StopNow();
      } else {
        Begin();
      }
      if (!ended_) Wait();
    });
  }

  void Begin() {
    stopping_ = true;
    spdlog::info("requests may finish within {} s; a second signal ends them within 1 s", timeout_);
    timer_.expires_after(std::chrono::milliseconds(static_cast<int64_t>(timeout_ * 1000)));
    timer_.async_wait([this](const ErrorCode& error) {
      if (!error) server_.StopNow();
    });
    server_.Stop([this] {
      signals_.cancel();
      hang_ups_.Stop();
      watch_.Stop();
      timer_.cancel();
      ended_ = true;
    });
  }

  HttpServer& server_;
  const double timeout_;
  HangUps& hang_ups_;
  ServerWatch& watch_;
  asio::signal_set signals_;
  asio::steady_timer timer_;
  bool stopping_ = false;
  bool ended_ = false;
};

// All calls have been cancelled, of which the loop is to hear. False: some do not end.
bool FinishCalls(asio::io_context& loop) {
  loop.restart();
  const auto waiting = asio::make_work_guard(loop);
  const auto last = std::chrono::steady_clock::now() + kCallsEnd;
  while (OpenCalls::count() > 0 && std::chrono::steady_clock::now() < last) {
    loop.run_for(std::chrono::milliseconds(1));
  }
  return OpenCalls::count() == 0;
}

}  // namespace

int Serve(const GatewayOptions& options) {
  asio::io_context loop(1);
  auto upstream = Upstream::Open(options.server, options.connections, loop.get_executor());
  if (!upstream.ok()) {
    spdlog::critical("{}", std::string(upstream.status().message()));
    return 1;
  }
  Metrics metrics(TVQ_VERSION);
  SideThreads beside(SideThreadCount());
  Services services{.upstream = **upstream,
                    .metrics = metrics,
                    .beside = beside,
                    .max_body_bytes = static_cast<size_t>(options.max_body_bytes),
                    .version = TVQ_VERSION,
                    .refusal_timeout = options.refusal_timeout};
  const bool has_tls = !options.certificate_file.empty();
  Gateway gateway(services, Origins(options.http.host, has_tls, options.allowed_origins));
  std::optional<TlsFiles> tls;
  if (has_tls) {
    auto files = TlsFiles::Load(options.certificate_file, options.key_file, TellCertificates);
    if (!files.ok()) {
      spdlog::critical("{}", std::string(files.status().message()));
      return 1;
    }
    tls = *std::move(files);
  }
  HttpServer server(
      loop, options.http, gateway.Hooks(), [&]() { return tls ? tls->Current() : nullptr; },
      Shortage());
  gateway.CountConnections([&] { return server.connections(); });
  if (const absl::Status status = server.Listen(); !status.ok()) {
    spdlog::critical("{}", std::string(status.message()));
    return 1;
  }
  TellAddresses(options.http.host, server.listeners());
  const HeapTrimmer trimmer;
  HangUps hang_ups(loop, tls);
  ServerWatch watch(services, loop.get_executor());
  Shutdown shutdown(loop, server, options.shutdown_timeout, hang_ups, watch);
  // Scripts read this line, for the port.
  const std::string url =
      (has_tls ? "https://" : "http://") + HostPort(options.http.host, server.port());
  std::printf("listening on %s\n", url.c_str());
  if (const absl::Status told = FlushStdout(); !told.ok()) {
    spdlog::warn("listening on {}, but {}", url, std::string(told.message()));
  }
  asio::co_spawn(loop, watch.Run(), asio::detached);
  loop.run();
  if (FinishCalls(loop)) {
    spdlog::info("stopped");
  } else {
    spdlog::warn("stopped with calls that do not end");
  }
  spdlog::shutdown();
  // What gRPC still works on cannot be destroyed; and on a busy machine it waits ten seconds for
  // the connection of a call that was refused while it was written.
  std::_Exit(0);
}

}  // namespace tvq::gateway
