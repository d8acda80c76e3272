// What the engine counts. Plain numbers; server/metrics turns them into an exposition format.
#ifndef TVQ_SERVER_ENGINE_ENGINE_STATS_H_
#define TVQ_SERVER_ENGINE_ENGINE_STATS_H_

#include <chrono>
#include <cstdint>
#include <optional>

#include "base/histogram.h"

namespace tvq {

struct EngineStats {
  int64_t requests_running = 0;
  int64_t requests_waiting = 0;
  int64_t sequences_running = 0;     // places taken: n for a request with n samples
  int64_t state_bytes = 0;           // that running sequences have for themselves
  int64_t state_bytes_reserved = 0;  // promised to running requests, what they hold included
  int64_t state_bytes_left = 0;      // of states that ended requests left, until they find a place
  int64_t state_bytes_budget = 0;

  // Totals since start. Every accepted request ends as one of finished, cancelled and failed.
  int64_t requests_finished = 0;
  int64_t requests_cancelled = 0;  // by Cancel
  int64_t requests_failed = 0;     // for any other reason: deadline, shutdown, a model's error
  int64_t prompt_tokens = 0;       // of requests that started
  int64_t prefill_tokens_computed = 0;
  int64_t prefill_tokens_reused = 0;  // that the states held which requests started from
  int64_t generation_tokens = 0;
  int64_t draft_tokens = 0;           // fed ahead of being sampled
  int64_t draft_tokens_accepted = 0;  // of them, sampled, too, and not the sample's last
  int64_t steps = 0;
  bool healthy = true;  // as far as is known: what computes has not failed

  // Of requests that generate; from the moment Submit took them.
  Histogram queue_time;           // until they start
  Histogram time_to_first_token;  // until their first token
  Histogram inter_token_latency;  // between tokens of a sample
  Histogram e2e_latency;          // until they finish

  // When the step that the loop computes now began; unset while it waits for work. A step that
  // began long ago hangs.
  std::optional<std::chrono::steady_clock::time_point> step_began;
};

}  // namespace tvq

#endif  // TVQ_SERVER_ENGINE_ENGINE_STATS_H_
