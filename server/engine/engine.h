// Continuous batching over one device: admit -> plan -> run -> deliver, on one loop thread.
#ifndef TVQ_SERVER_ENGINE_ENGINE_H_
#define TVQ_SERVER_ENGINE_ENGINE_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "models/runtime/model.h"
#include "server/engine/engine_stats.h"
#include "server/engine/memory/state_budget.h"
#include "server/engine/request/request.h"

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
  // Budget of states; 0: what the container's memory leaves, or the device's if it has its own,
  // where all of it is taken at once.
  int64_t state_memory_bytes = 0;
  // Have a device that records the operations of a decode step carry them out one by one all the
  // same, as a profile wants it.
  bool enforce_eager = false;
};

// What max_num_admitted_seqs comes to.
int64_t MaxAdmittedSeqs(const EngineOptions& options);

// Models of one engine compute on one device.
struct ServedModel {
  std::string name;
  std::shared_ptr<Model> model;
  int32_t weight = 1;  // share of the device's time when several models have work
};

struct ModelCapacity {
  bool grows = false;             // a session takes more as it gets longer
  int64_t tokens = 0;             // length of the sessions that the next two are about
  int64_t bytes_per_session = 0;  // Model::StateBytes(tokens)
  int64_t max_sessions = 0;       // of that size that fit the whole budget
  int64_t sessions_in_use = 0;    // states reserved for running requests
};

// Bytes that computing takes beside states and weights: scratch, logits of `max_num_seqs` rows and
// of drafts, and what drafts are taken from.
int64_t WorkspaceBytes(const std::vector<ServedModel>& models, int64_t max_num_seqs);

// Names a submitted request; 0 is none.
using RequestHandle = uint64_t;

// Every method may be called from any thread, from a sink's callbacks too (but Drain and the
// destructor not from there: they wait for the loop).
class Engine {
 public:
  // INVALID_ARGUMENT names the option that is out of range or the model name that is used twice.
  static absl::StatusOr<std::unique_ptr<Engine>> Create(std::vector<ServedModel> models,
                                                        const EngineOptions& options);
  // Finishes nothing: running requests end with UNAVAILABLE. Call Drain first for grace. Waits for
  // states that a StateSource fills.
  ~Engine();

  // Checks and queues the request. Rejections come here, before any output: INVALID_ARGUMENT for
  // its fields, NOT_FOUND for the model, RESOURCE_EXHAUSTED for a full queue or a need above the
  // whole budget, UNAVAILABLE while draining, DEADLINE_EXCEEDED when it is late already. The sink
  // of a rejected request hears nothing.
  absl::StatusOr<RequestHandle> Submit(Request request);

  // Frees the request's place at once, in the queue, in prefill or in decode (within one step). Its
  // sink gets OnEnd with CANCELLED, unless it was done already.
  void Cancel(RequestHandle handle);

  // To be called when a sink whose WantsMore was false wants more again: the loop sleeps while all
  // that runs is paused. Cheap, and harmless when nothing waits.
  void Wake();

  // Accepts nothing more and returns when all requests are done or at `until`; what still runs then
  // ends with UNAVAILABLE. True when everything finished by itself.
  bool Drain(SteadyTime until);

  // OK, or UNAVAILABLE, naming the device, once that has failed for good: then requests end with
  // this status and no more are accepted. States on the device are lost; the process may go on to
  // give out what lies elsewhere. To be asked now and then, since a device may fail while nothing
  // computes.
  absl::Status Health() const;

  EngineStats stats() const;
  // For sessions of `tokens` tokens; 0: the longest that the model allows. NOT_FOUND for the model,
  // INVALID_ARGUMENT for a length that it does not allow.
  absl::StatusOr<ModelCapacity> Capacity(const std::string& model, int64_t tokens = 0) const;
  // Model::state_reads() of models()[model], as of the last step.
  StateReadTotals StateReads(size_t model) const;
  const std::vector<ServedModel>& models() const;

  // Of every state there is. Whoever holds a share of it must let go before the engine ends.
  StateBudget& budget();

 private:
  class Impl;
  explicit Engine(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace tvq

#endif  // TVQ_SERVER_ENGINE_ENGINE_H_
