// Every tier does what durable_tier.h says.
#include <gtest/gtest.h>

#include <memory>

#include "server/sessions/durable/disk/tier_disk.h"
#include "server/sessions/durable/redis/tier_redis.h"
#include "tests/models/runtime/temp_dir.h"
#include "tests/server/sessions/durable_tier_contract.h"
#include "tests/server/sessions/memory_tier.h"
#include "tests/server/sessions/redis_process.h"

namespace tvq {
namespace {

class DiskStorage : public TierStorage {
 public:
  std::unique_ptr<DurableTier> Open(int64_t budget_bytes) override {
    return DiskTier::Open(directory_.path(), budget_bytes).value();
  }

 private:
  fixtures::TempDir directory_;
};

class MemoryStorage : public TierStorage {
 public:
  std::unique_ptr<DurableTier> Open(int64_t budget_bytes) override {
    disk_->budget = budget_bytes;
    return std::make_unique<MemoryTier>(disk_);
  }
  bool asserts_lengths() const override { return true; }

 private:
  const std::shared_ptr<MemoryDisk> disk_ = std::make_shared<MemoryDisk>();
};

class SharedMemoryStorage : public TierStorage {
 public:
  std::unique_ptr<DurableTier> Open(int64_t budget_bytes) override {
    disk_->budget = budget_bytes;
    return std::make_unique<MemoryTier>(disk_, /*shared=*/true);
  }
  bool asserts_lengths() const override { return true; }

 private:
  const std::shared_ptr<MemoryDisk> disk_ = std::make_shared<MemoryDisk>();
};

// With so small pieces that every state has many.
class RedisStorage : public TierStorage {
 public:
  std::unique_ptr<DurableTier> Open(int64_t budget_bytes) override {
    return OpenRedisTier(redis_.url(), {.budget_bytes = budget_bytes, .piece_bytes = 1000}).value();
  }

 private:
  RedisProcess redis_;
};

template <typename Storage>
std::unique_ptr<TierStorage> New() {
  return std::make_unique<Storage>();
}

INSTANTIATE_TEST_SUITE_P(Disk, DurableTierTest, ::testing::Values(&New<DiskStorage>));
INSTANTIATE_TEST_SUITE_P(Memory, DurableTierTest, ::testing::Values(&New<MemoryStorage>));
INSTANTIATE_TEST_SUITE_P(SharedMemory, DurableTierTest,
                         ::testing::Values(&New<SharedMemoryStorage>));
INSTANTIATE_TEST_SUITE_P(Redis, DurableTierTest, ::testing::Values(&New<RedisStorage>));

INSTANTIATE_TEST_SUITE_P(Memory, SharedTierContract, ::testing::Values(&New<SharedMemoryStorage>));
INSTANTIATE_TEST_SUITE_P(Redis, SharedTierContract, ::testing::Values(&New<RedisStorage>));

}  // namespace
}  // namespace tvq
