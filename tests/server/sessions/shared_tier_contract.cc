// What a tier has to do that several servers write to: `tier_` is one, `other_` another.
#include <gmock/gmock.h>

#include <span>
#include <string>
#include <thread>
#include <vector>

#include "tests/server/sessions/durable_tier_contract.h"

namespace tvq {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

}  // namespace

TEST_P(SharedTierContract, TheLastToClaimWrites) {
  ASSERT_TRUE(PutSnapshot(tier_.get(), FullRecord('1', 1), 1, "one").ok());
  EXPECT_TRUE(tier_->shared());
  EXPECT_FALSE(other_->Look(Id('1'))->owned);
  EXPECT_EQ(other_->Look(Id('1'))->version, 1);
  EXPECT_EQ(other_->Claim(Id('1'), kNow)->version, 1);
  EXPECT_TRUE(other_->Look(Id('1'))->owned);
  EXPECT_FALSE(tier_->Look(Id('1'))->owned);
  // Later, same and newer versions alike.
  for (const int64_t version : {1, 2, 9}) {
    const absl::Status status =
        PutSnapshot(tier_.get(), FullRecord('1', version), version, "stale");
    EXPECT_TRUE(absl::IsAborted(status)) << status;
  }
  EXPECT_TRUE(absl::IsAborted(tier_->Touch(Id('1'), absl::InfiniteFuture())));
  EXPECT_TRUE(absl::IsAborted(tier_->Delete(Id('1'))));
  EXPECT_EQ(GetSnapshot(other_.get(), Id('1'), 1, 3).value(), "one");
  ASSERT_TRUE(PutSnapshot(other_.get(), FullRecord('1', 2), 2, "two").ok());
  EXPECT_EQ(tier_->Claim(Id('1'), kNow)->version, 2);
  EXPECT_FALSE(other_->Look(Id('1'))->owned);
  ASSERT_TRUE(PutSnapshot(tier_.get(), FullRecord('1', 3), 3, "three").ok());
  EXPECT_EQ(GetSnapshot(other_.get(), Id('1'), 3, 5).value(), "three");
}

TEST_P(SharedTierContract, WhoNeverClaimedNeitherWritesNorDeletes) {
  ASSERT_TRUE(PutSnapshot(tier_.get(), FullRecord('1', 1), 1, "one").ok());
  EXPECT_TRUE(absl::IsAborted(PutSnapshot(other_.get(), FullRecord('1', 2), 2, "two")));
  EXPECT_TRUE(absl::IsAborted(other_->Delete(Id('1'))));
  EXPECT_TRUE(absl::IsAborted(other_->Touch(Id('1'), absl::InfiniteFuture())));
  EXPECT_TRUE(other_->Delete(Id('2')).ok()) << "there is none";
  EXPECT_EQ(GetSnapshot(other_.get(), Id('1'), 1, 3).value(), "one");
  EXPECT_TRUE(tier_->Look(Id('1'))->owned);
}

TEST_P(SharedTierContract, AClaimDuringAPutStopsIt) {
  ASSERT_TRUE(PutSnapshot(tier_.get(), FullRecord('1', 1), 1, "one").ok());
  const absl::Status status = tier_->Put(FullRecord('1', 2), 2, 3, [&](const ByteSink& sink) {
    EXPECT_TRUE(other_->Claim(Id('1'), kNow).ok());
    return sink(std::as_bytes(std::span("two", 3)));
  });
  EXPECT_TRUE(absl::IsAborted(status)) << status;
  EXPECT_EQ(GetSnapshot(other_.get(), Id('1'), 1, 3).value(), "one");
}

TEST_P(SharedTierContract, AClaimIsAUse) {
  const SessionRecord record = FullRecord('1', 1);
  ASSERT_TRUE(PutSnapshot(tier_.get(), record, 1, "one").ok());
  const absl::Time later = record.last_used + absl::Hours(1);
  EXPECT_LT(absl::AbsDuration(other_->Claim(Id('1'), later)->last_used - later),
            absl::Microseconds(1));
  EXPECT_FALSE(tier_->DeleteUnused(Id('1'), record.last_used).value());
  EXPECT_EQ(tier_->Find(Id('1'))->version, 1);
}

TEST_P(SharedTierContract, AnyServerDeletesWhatNobodyUsed) {
  const SessionRecord record = FullRecord('1', 1);
  ASSERT_TRUE(PutSnapshot(tier_.get(), record, 1, "one").ok());
  EXPECT_TRUE(other_->DeleteUnused(Id('1'), record.last_used).value());
  EXPECT_FALSE(tier_->Look(Id('1'))->owned);
  EXPECT_TRUE(absl::IsAborted(PutSnapshot(tier_.get(), FullRecord('1', 2), 2, "two")));
  EXPECT_THAT(Stored(other_.get()), IsEmpty());
}

TEST_P(SharedTierContract, ADeletedSessionDoesNotComeBack) {
  ASSERT_TRUE(PutSnapshot(tier_.get(), FullRecord('1', 1), 1, "one").ok());
  ASSERT_TRUE(other_->Claim(Id('1'), kNow).ok());
  ASSERT_TRUE(other_->Delete(Id('1')).ok());
  EXPECT_FALSE(tier_->Look(Id('1'))->owned);
  EXPECT_TRUE(absl::IsNotFound(tier_->Claim(Id('1'), kNow).status()));
  const absl::Status status = PutSnapshot(tier_.get(), FullRecord('1', 2), 2, "two");
  EXPECT_TRUE(absl::IsAborted(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("deleted"));
  EXPECT_THAT(Stored(other_.get()), IsEmpty());
  EXPECT_TRUE(tier_->Delete(Id('1')).ok()) << "it is gone";
}

TEST_P(SharedTierContract, AllServersSeeOneStorage) {
  const auto name = tier_->Instance();
  ASSERT_TRUE(name.ok()) << name.status();
  EXPECT_NE(*name, "");
  EXPECT_EQ(other_->Instance().value(), *name);
  EXPECT_EQ(storage_->Open(0)->Instance().value(), *name);
}

TEST_P(SharedTierContract, FindsWhatACallMade) {
  const SessionRecord record = FullRecord('1', 1);
  ASSERT_TRUE(PutSnapshot(tier_.get(), record, 1, "one").ok());
  ASSERT_TRUE(PutSnapshot(tier_.get(), FullRecord('2', 1), 1, "one").ok());
  SessionRecord without = FullRecord('3', 1);
  without.creation_key.clear();
  ASSERT_TRUE(PutSnapshot(tier_.get(), without, 1, "one").ok());
  EXPECT_THAT(other_->CreatedBy(record).value(), UnorderedElementsAre(Id('1'), Id('2')));
  for (std::string SessionRecord::* field :
       {&SessionRecord::owner, &SessionRecord::parent_id, &SessionRecord::creation_key}) {
    SessionRecord like = record;
    (like.*field).back() ^= 1;
    EXPECT_THAT(other_->CreatedBy(like).value(), IsEmpty());
  }
  ASSERT_TRUE(tier_->Delete(Id('1')).ok());
  EXPECT_THAT(other_->CreatedBy(record).value(), ElementsAre(Id('2')));
}

// The server that claims last is the last to be told: it writes, and nobody else.
TEST_P(SharedTierContract, ClaimsAtTheSameTimeLeaveOneOwner) {
  ASSERT_TRUE(PutSnapshot(tier_.get(), FullRecord('1', 1), 1, "one").ok());
  for (int round = 0; round < 20; ++round) {
    std::vector<std::thread> threads;
    for (DurableTier* tier : {tier_.get(), other_.get()}) {
      for (int i = 0; i < 4; ++i) {
        threads.emplace_back([&, tier] { EXPECT_TRUE(tier->Claim(Id('1'), kNow).ok()); });
      }
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_NE(tier_->Look(Id('1'))->owned, other_->Look(Id('1'))->owned);
  }
}

}  // namespace tvq
