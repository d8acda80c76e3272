// What all parts of the store work with, and what it says of itself.
#ifndef TVQ_SERVER_SESSIONS_STORE_CONTEXT_H_
#define TVQ_SERVER_SESSIONS_STORE_CONTEXT_H_

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "models/runtime/model.h"
#include "server/engine/engine.h"
#include "server/sessions/durable/durable_tier.h"
#include "server/sessions/session_store.h"

namespace tvq {

struct StoreContext {
  Engine* const engine;
  const SessionOptions options;
  const std::unique_ptr<DurableTier> durable;  // may be null
  const std::function<absl::Time()> clock;     // wall time
  std::atomic<bool> leaving = false;           // see SessionStore::Leave
  std::atomic<bool> stopping = false;          // what goes through many sessions comes to an end

  bool shares_storage() const { return durable != nullptr && durable->shared(); }
  const Model& model(size_t index) const { return *engine->models()[index].model; }
  // Of the model of that name, or of the only one without a name.
  absl::StatusOr<size_t> ModelIndex(const std::string& name) const;
  // FAILED_PRECONDITION for a durability that this server has not.
  absl::Status CheckDurability(Durability durability) const;
};

}  // namespace tvq

#endif  // TVQ_SERVER_SESSIONS_STORE_CONTEXT_H_
