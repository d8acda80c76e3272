#include "server/startup/serve_metrics.h"

#include <spdlog/spdlog.h>

#include <chrono>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/host_port.h"
#include "base/refusal.h"
#include "server/rpc/listen/listening_sockets.h"

namespace tvq {
namespace {

// When the process began to serve, in seconds since 1970; the same at every call.
double StartTime() {
  static const double start =
      std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  return start;
}

ModelStats StatsOf(const Engine& engine, size_t model) {
  ModelStats stats{.name = engine.models()[model].name};
  if (const auto capacity = engine.Capacity(stats.name); capacity.ok()) {
    stats.bytes_per_session = capacity->bytes_per_session;
    stats.max_sessions = capacity->max_sessions;
    stats.sessions_in_use = capacity->sessions_in_use;
  }
  const StateReadTotals reads = engine.StateReads(model);
  stats.attention_queries = reads.queries;
  stats.attention_skipped_mass = reads.skipped_mass;
  stats.attention_rows = reads.rows;
  stats.attention_rows_read = reads.rows_read;
  return stats;
}

double SecondsSince(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace

MetricsSnapshot TakeSnapshot(const Measured& measured) {
  MetricsSnapshot snapshot{.version = TVQ_VERSION, .start_time = StartTime()};
  snapshot.engine = measured.engine->stats();
  if (const auto began = snapshot.engine.step_began) snapshot.step_seconds = SecondsSince(*began);
  if (measured.sessions != nullptr) snapshot.sessions = measured.sessions->stats();
  for (size_t model = 0; model < measured.engine->models().size(); ++model) {
    snapshot.models.push_back(StatsOf(*measured.engine, model));
  }
  const CallCounts calls = measured.server->call_counts();
  for (const auto& [method, code, count] : calls.finished) {
    snapshot.methods.push_back({method, code, count});
  }
  for (const auto& [reason, count] : calls.rejected) {
    snapshot.rejections.push_back({std::string(InfoOf(reason).name), count});
  }
  snapshot.closed_connections = measured.server->closed_connections();
  return snapshot;
}

absl::StatusOr<std::unique_ptr<MetricsEndpoint>> ServeMetrics(const Flags& flags,
                                                              const Measured& measured) {
  if (flags.metrics_port == 0) return nullptr;
  StartTime();
  const std::string address = HostPort(flags.metrics_host, flags.metrics_port);
  auto endpoint = MetricsEndpoint::Start(address, [measured] { return TakeSnapshot(measured); });
  if (endpoint.ok()) {
    spdlog::info("metrics at http://{}/metrics", address);
  } else if (const auto tried = ListenOn(flags.metrics_host, flags.metrics_port); !tried.ok()) {
    // What the endpoint's library does not tell.
    return absl::Status(tried.status().code(), absl::StrCat("metrics: ", tried.status().message()));
  }
  return endpoint;
}

}  // namespace tvq
