// What every DurableTier has to do, and what every shared one (shared_tier_contract.cc), as tests
// that each implementation instantiates:
//
//   INSTANTIATE_TEST_SUITE_P(Disk, DurableTierTest, ::testing::Values(&NewDiskStorage));
#ifndef TVQ_TESTS_SERVER_SESSIONS_DURABLE_TIER_CONTRACT_H_
#define TVQ_TESTS_SERVER_SESSIONS_DURABLE_TIER_CONTRACT_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "server/sessions/durable/durable_tier.h"

namespace tvq {

// Where tiers put things. What one tier has stored, the next one opened finds.
class TierStorage {
 public:
  virtual ~TierStorage() = default;
  // Unless the tier is shared, the one before is destroyed first.
  virtual std::unique_ptr<DurableTier> Open(int64_t budget_bytes) = 0;
  // Whether a state of another length than announced is a failure of the test at hand.
  virtual bool asserts_lengths() const { return false; }
};

class DurableTierTest : public ::testing::TestWithParam<std::unique_ptr<TierStorage> (*)()> {
 protected:
  DurableTierTest() : storage_(GetParam()()), tier_(storage_->Open(0)) {}
  // As a restarted server.
  void Reopen(int64_t budget_bytes = 0);

  std::unique_ptr<TierStorage> storage_;
  std::unique_ptr<DurableTier> tier_;
};

// For tiers that are shared.
class SharedTierContract : public DurableTierTest {
 protected:
  std::unique_ptr<DurableTier> other_ = storage_->Open(0);
};

// When sessions are claimed: long before they were used.
inline const absl::Time kNow = absl::FromUnixSeconds(1'000'000'000);

// The id of a session.
std::string Id(char digit);

// A record with all fields set, of 7 tokens.
SessionRecord FullRecord(char id_digit, int64_t version);

// `bytes` pseudo-random bytes that differ for each seed.
std::string TestState(int64_t seed, int64_t bytes);

// Stores `state` as it is, in parts of 1,000 bytes.
absl::Status PutState(DurableTier* tier, const SessionRecord& record, int64_t version,
                      const std::string& state);

// Reads `bytes` bytes in parts of odd sizes.
absl::StatusOr<std::string> GetState(DurableTier* tier, const std::string& id, int64_t version,
                                     int64_t bytes);

// The same of whole snapshots, a head before the state.
absl::Status PutSnapshot(DurableTier* tier, const SessionRecord& record, int64_t version,
                         const std::string& state);
absl::StatusOr<std::string> GetSnapshot(DurableTier* tier, const std::string& id, int64_t version,
                                        int64_t bytes);

// Ids and versions of all sessions, "<id>@<version>", sorted.
std::vector<std::string> Stored(DurableTier* tier);

}  // namespace tvq

#endif  // TVQ_TESTS_SERVER_SESSIONS_DURABLE_TIER_CONTRACT_H_
