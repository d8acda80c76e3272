// Which tokens may follow in a sample that follows a grammar, found on another thread while the
// device computes.
#ifndef TVQ_SERVER_ENGINE_SEQUENCE_GRAMMAR_FOLLOWER_H_
#define TVQ_SERVER_ENGINE_SEQUENCE_GRAMMAR_FOLLOWER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/task_threads.h"
#include "models/runtime/text/grammar.h"
#include "server/engine/request/request.h"

namespace tvq {

// What grammars compute; the owners of requests take turns.
using GrammarThreads = TaskThreads<std::string>;

// Used by the loop alone. It may end while a thread still works for it.
class GrammarFollower {
 public:
  // Begins with what may be first.
  GrammarFollower(std::shared_ptr<const Grammar> grammar, std::string owner,
                  std::shared_ptr<GrammarThreads> threads);
  GrammarFollower(GrammarFollower&&) = default;
  GrammarFollower& operator=(GrammarFollower&&) = default;
  ~GrammarFollower();

  // Begins with what may follow `id`, which the mask allows.
  void Accept(int32_t id);
  // Waits for the mask of what may be next, as SampleRow has it; nothing if that takes longer.
  // Valid until Accept. INVALID_ARGUMENT if the grammar cannot be followed any further: it takes
  // too long for a token, or no token of the model may be next.
  absl::StatusOr<std::optional<std::span<const uint32_t>>> Await(SteadyTime until) const;

 private:
  struct Work;
  void Schedule(std::optional<int32_t> id);

  std::string owner_;
  std::shared_ptr<GrammarThreads> threads_;
  std::shared_ptr<Work> work_;  // null after a move
};

}  // namespace tvq

#endif  // TVQ_SERVER_ENGINE_SEQUENCE_GRAMMAR_FOLLOWER_H_
