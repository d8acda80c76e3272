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

  // From `a` to `b`, marks left out.
  void HandOver(const std::string& id) {
    const auto stream = a.store->ExportPart(id, "");
    ASSERT_TRUE(stream.ok()) << stream.status();
    const std::string bytes = *(*stream)->Next((*stream)->total_bytes());
    auto upload = b.store->NewUpload();
    ASSERT_TRUE(upload->Add({bytes.data(), bytes.size()}).ok());
    auto adoption = b.store->Adopt();
    ASSERT_TRUE(adoption->Add("", std::move(upload)).ok());
    const auto taken = adoption->Finish();
    ASSERT_TRUE(taken.ok()) << taken.status();
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
