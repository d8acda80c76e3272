// What the engine counts. Plain numbers; server/metrics turns them into an exposition format.
#ifndef TVQ_SERVER_ENGINE_ENGINE_STATS_H_
#define TVQ_SERVER_ENGINE_ENGINE_STATS_H_

#include <cstdint>

namespace tvq {

struct EngineStats {
  int64_t requests_running = 0;
  int64_t requests_waiting = 0;
  int64_t sequences_running = 0;
  int64_t state_bytes = 0;  // held by running sequences

  // Totals since start.
  int64_t requests_finished = 0;
  int64_t requests_rejected = 0;
  int64_t requests_cancelled = 0;
  int64_t requests_failed = 0;
  int64_t prompt_tokens = 0;
  int64_t prefill_tokens_computed = 0;
  int64_t generation_tokens = 0;
  int64_t steps = 0;
};

}  // namespace tvq

#endif  // TVQ_SERVER_ENGINE_ENGINE_STATS_H_
