// How much an engine takes of requests at once, and how it computes.
#ifndef TVQ_SERVER_ENGINE_REQUEST_ENGINE_OPTIONS_H_
#define TVQ_SERVER_ENGINE_REQUEST_ENGINE_OPTIONS_H_

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace tvq {

struct EngineOptions {
  int64_t max_num_seqs = 64;  // sequences that compute in one step; others take turns with them
  // Sequences that were admitted and have their states; 0: as many as their bytes allow, at most
  // 4096 or max_num_seqs if that is more.
  int64_t max_num_admitted_seqs = 0;
  int64_t max_num_queued_reqs = 1024;       // requests waiting
  int64_t max_num_queued_tokens = 1 << 24;  // prompt tokens waiting
  int64_t max_num_batched_tokens = 512;  // tokens fed in one step, decode rows first, whole chunks
  // While requests wait for a place, so many tokens of a sample go out together.
  int64_t stream_interval = 4;
  // A request whose reader takes nothing for so long, while it waits for the reader, is ended.
  std::chrono::milliseconds paused_timeout{60'000};
  // A step waits at most so long for what grammars allow. Samples that need more time are taken up
  // by a later step.
  std::chrono::milliseconds grammar_wait{1};
  // Budget of states; 0: what the container's memory leaves, or the device's if it has its own,
  // where all of it is taken at once.
  int64_t state_memory_bytes = 0;
  // Have a device that records the operations of a decode step carry them out one by one all the
  // same, as a profile wants it.
  bool enforce_eager = false;
};

// What max_num_admitted_seqs comes to.
inline int64_t MaxAdmittedSeqs(const EngineOptions& options) {
  constexpr int64_t kUsual = 4096;  // each takes some kilobytes beside its state
  if (options.max_num_admitted_seqs > 0) return options.max_num_admitted_seqs;
  return std::max(options.max_num_seqs, kUsual);
}

}  // namespace tvq

#endif  // TVQ_SERVER_ENGINE_REQUEST_ENGINE_OPTIONS_H_
