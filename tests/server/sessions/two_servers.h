// Two servers with one durable tier.
#ifndef TVQ_TESTS_SERVER_SESSIONS_TWO_SERVERS_H_
#define TVQ_TESTS_SERVER_SESSIONS_TWO_SERVERS_H_

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/server/message.h"
#include "tests/server/sessions/memory_tier.h"
#include "tests/server/sessions/store_harness.h"

namespace tvq {

// What the servers share.
class Shared {
 public:
  virtual ~Shared() = default;
  virtual std::unique_ptr<DurableTier> Open() = 0;
  // As a Redis that keeps nothing on disk and is started again.
  virtual void LoseAll() = 0;
};

class SharedMemory : public Shared {
 public:
  std::unique_ptr<DurableTier> Open() override {
    return std::make_unique<MemoryTier>(disk, /*shared=*/true);
  }
  void LoseAll() override { disk->LoseAll(); }

  std::shared_ptr<MemoryDisk> disk = std::make_shared<MemoryDisk>();
};

// Two servers.
struct Servers {
  explicit Servers(Shared* storage) : storage(storage) {
    for (StoreHarness* h : {&a, &b}) Restart(*h);
  }
  void Restart(StoreHarness& h) { h.Start(storage->Open()); }
  // Time passes for both.
  void Advance(absl::Duration by) {
    a.clock.Advance(by);
    b.clock.Advance(by);
  }

  Shared* const storage;
  std::vector<std::string> losses;  // that `a` was told of
  StoreHarness a{
      SessionOptions{.host_bytes = 1'000'000,
                     .on_loss = [this](const std::string& message) { losses.push_back(message); }}};
  StoreHarness b;
};

}  // namespace tvq

#endif  // TVQ_TESTS_SERVER_SESSIONS_TWO_SERVERS_H_
