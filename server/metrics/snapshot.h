// Everything that is exposed, at one moment. Plain numbers.
#ifndef TVQ_SERVER_METRICS_SNAPSHOT_H_
#define TVQ_SERVER_METRICS_SNAPSHOT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "server/engine/engine_stats.h"
#include "server/sessions/record/session_stats.h"

namespace tvq {

struct ModelStats {
  std::string name;
  int64_t bytes_per_session = 0;
  int64_t max_sessions = 0;
  int64_t sessions_in_use = 0;
  // Of decode steps that may leave rows of values out, since the server began.
  int64_t attention_queries = 0;      // of every layer and head
  double attention_skipped_mass = 0;  // shares of their softmax that were left out, summed
  int64_t attention_rows = 0;         // that had a weight, of every layer and key/value head
  int64_t attention_rows_read = 0;    // of them
};

// Calls that ended with this code since the server began.
struct MethodStats {
  std::string method;  // "GenerationService/Generate"
  std::string code;    // "OK", "NOT_FOUND", ...
  int64_t count = 0;
};

// Calls that ended otherwise than OK, by the reason of their refusal.
struct RejectionStats {
  std::string reason;
  int64_t count = 0;
};

struct MetricsSnapshot {
  std::string version;
  double start_time = 0;  // seconds since 1970
  EngineStats engine;
  double step_seconds = 0;               // for which the step that is computed now has been running
  std::optional<SessionStats> sessions;  // unset: the server keeps none
  std::vector<ModelStats> models;
  std::vector<MethodStats> methods;
  std::vector<RejectionStats> rejections;
  int64_t closed_connections = 0;  // beyond limits, or as descriptors were short
};

}  // namespace tvq

#endif  // TVQ_SERVER_METRICS_SNAPSHOT_H_
