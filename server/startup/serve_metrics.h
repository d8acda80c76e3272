#ifndef TVQ_SERVER_STARTUP_SERVE_METRICS_H_
#define TVQ_SERVER_STARTUP_SERVE_METRICS_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "server/engine/engine.h"
#include "server/metrics/endpoint.h"
#include "server/metrics/snapshot.h"
#include "server/rpc/services/server.h"
#include "server/sessions/session_store.h"
#include "server/startup/flags.h"

namespace tvq {

// Whose figures are exposed. All outlive the endpoint.
struct Measured {
  const Engine* engine = nullptr;
  const SessionStore* sessions = nullptr;  // null: the server keeps none
  const Server* server = nullptr;
};

MetricsSnapshot TakeSnapshot(const Measured& measured);

// Null if the flags want none. Errors of MetricsEndpoint::Start.
absl::StatusOr<std::unique_ptr<MetricsEndpoint>> ServeMetrics(const Flags& flags,
                                                              const Measured& measured);

}  // namespace tvq

#endif  // TVQ_SERVER_STARTUP_SERVE_METRICS_H_
