// Continuous batching over one device: admit -> plan -> run -> deliver, on one loop thread.
#ifndef TVQ_SERVER_ENGINE_ENGINE_H_
#define TVQ_SERVER_ENGINE_ENGINE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "models/runtime/model.h"
#include "models/runtime/text/grammars.h"
#include "server/engine/engine_stats.h"
#include "server/engine/memory/state_budget.h"
#include "server/engine/request/engine_options.h"
#include "server/engine/request/request.h"

namespace tvq {

// Models of one engine compute on one device.
struct ServedModel {
  std::string name;
  std::shared_ptr<Model> model;
  int32_t weight = 1;  // share of the device's time when several models have work
  // What its outputs may have to follow; null where it writes no text, or no token ends one.
  std::shared_ptr<Grammars> grammars = nullptr;
};

// What a session of so many tokens takes.
struct SessionSize {
  int64_t tokens = 0;
  int64_t bytes = 0;
};

struct ModelCapacity {
  bool grows = false;             // a session takes more as it gets longer
  int64_t tokens = 0;             // length of the sessions that the next two are about
  int64_t bytes_per_session = 0;  // Model::StateBytes(tokens)
  int64_t max_sessions = 0;       // of that size that fit the whole budget
  int64_t sessions_in_use = 0;    // states reserved for running requests
  // Of sessions that grow: what a further token takes, in the mean, and what sessions of 1024,
  // 8192, 32768 and 131072 tokens take, of those that the context has.
  int64_t bytes_per_token = 0;
  std::vector<SessionSize> sizes;
};

// Bytes that computing takes beside states and weights: scratch, logits of `max_num_seqs` rows and
// of drafts, and the tables of earlier tokens in which drafts are looked up (PromptLookup).
int64_t WorkspaceBytes(const std::vector<ServedModel>& models, int64_t max_num_seqs);

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
  // For sessions of `tokens` tokens; 0: the longest that the model allows, or one where it allows
  // any. NOT_FOUND for the model, INVALID_ARGUMENT for a length that it does not allow.
  absl::StatusOr<ModelCapacity> Capacity(const std::string& model, int64_t tokens = 0) const;
  // ReadTotals of models()[model], as of the last step.
  StateReadTotals StateReads(size_t model) const;
  const std::vector<ServedModel>& models() const;

  // Of every state there is. Shares of it must be released before the engine ends.
  StateBudget& budget();

 private:
  class Impl;
  explicit Engine(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace tvq

#endif  // TVQ_SERVER_ENGINE_ENGINE_H_
