// A session store with a durable tier in memory, which outlives it.
#ifndef TVQ_TESTS_SERVER_SESSIONS_DURABLE_HARNESS_H_
#define TVQ_TESTS_SERVER_SESSIONS_DURABLE_HARNESS_H_

#include <memory>
#include <utility>

#include "tests/server/sessions/memory_tier.h"
#include "tests/server/sessions/store_harness.h"

namespace tvq {

struct DurableHarness : StoreHarness {
  explicit DurableHarness(SessionOptions options = {.host_bytes = 1'000'000},
                          EngineOptions engine = SmallOptions())
      : StoreHarness(std::move(options), {}, engine) {
    Restart();
  }
  void Restart() { Start(std::make_unique<MemoryTier>(disk)); }

  std::shared_ptr<MemoryDisk> disk = std::make_shared<MemoryDisk>();
};

}  // namespace tvq

#endif  // TVQ_TESTS_SERVER_SESSIONS_DURABLE_HARNESS_H_
