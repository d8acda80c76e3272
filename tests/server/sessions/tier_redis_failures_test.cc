// A Redis that is away, cut off, frozen, full or not to be written to.
#include <gmock/gmock.h>

#include <chrono>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "tests/server/sessions/durable_tier_contract.h"
#include "tests/server/sessions/redis_proxy.h"
#include "tests/server/sessions/tier_redis_fixture.h"

namespace tvq {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST_F(TierRedis, WithoutRedisEveryCallSaysSoAndAfterItAllWorks) {
  ASSERT_TRUE(PutState(tier_.get(), FullRecord('1', 1), 1, "one").ok());
  redis_.Kill();
  for (int round = 0; round < 2; ++round) {
    for (const absl::Status& status :
         {PutState(tier_.get(), FullRecord('1', 2), 2, "two"), tier_->Get(kId, 1).status(),
          tier_->Find(kId).status(), tier_->ForEach([](const SessionRecord&) {}),
          tier_->Delete(kId), tier_->Claim(kId, absl::Now()).status(), tier_->Look(kId).status(),
          tier_->Touch(kId, absl::Now()), tier_->DeleteUnused(kId, absl::Now()).status(),
          tier_->Instance().status()}) {
      EXPECT_TRUE(absl::IsUnavailable(status)) << status;
      EXPECT_THAT(Message(status), HasSubstr(redis_.url()));
    }
  }
  redis_.Start();
  EXPECT_TRUE(PutState(tier_.get(), FullRecord('1', 2), 2, "two").ok());
  EXPECT_EQ(GetState(tier_.get(), kId, 2, 3).value(), "two");
}

// What only a commit contains.
constexpr char kCommitText[] = "local record, used, place";

class TierRedisCut : public TierRedis {
 protected:
  TierRedisCut() {
    tier_ = OpenRedisTier(proxy_.url(),
                          {.piece_bytes = kPieceBytes, .timeouts = {timeout_, timeout_, timeout_}})
                .value();
    EXPECT_TRUE(PutState(tier_.get(), FullRecord('1', 1), 1, "one").ok());
  }

  // A Put of the record's own version whose commit is cut, and nobody can be asked about it.
  void PutUnasked(const SessionRecord& record, const std::string& state, RedisProxy::Cut cut) {
    const absl::Status status =
        tier_->Put(record, record.version, std::ssize(state), [&](const ByteSink& sink) {
          proxy_.CutAt(kCommitText, cut);
          proxy_.Refuse(true);  // but for the connection that is there
          return sink(std::as_bytes(std::span(state)));
        });
    EXPECT_TRUE(absl::IsUnavailable(status)) << status;
    EXPECT_THAT(Message(status), HasSubstr("not known"));
    EXPECT_FALSE(tier_->Look(kId).ok());
    proxy_.Refuse(false);
  }

  RedisProxy proxy_{redis_.socket()};
};

TEST_F(TierRedisCut, ACommitWhoseAnswerIsLostIsDone) {
  proxy_.CutAt(kCommitText, RedisProxy::Cut::kAnswer);
  ASSERT_TRUE(PutState(tier_.get(), FullRecord('1', 2), 2, "two").ok());
  EXPECT_EQ(tier_->Look(kId)->version, 2);
  EXPECT_EQ(GetState(tier_.get(), kId, 2, 3).value(), "two");
  EXPECT_TRUE(absl::IsAborted(PutState(tier_.get(), FullRecord('1', 1), 1, "one")));
  ASSERT_TRUE(PutState(tier_.get(), FullRecord('1', 3), 3, "three").ok());
}

TEST_F(TierRedisCut, ACommitThatArrivesLateIsRefused) {
  proxy_.CutAt(kCommitText, RedisProxy::Cut::kCommand);
  const absl::Status status = PutState(tier_.get(), FullRecord('1', 2), 2, "two");
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_THAT(proxy_.Deliver(), HasSubstr("claimed"));
  EXPECT_EQ(tier_->Look(kId)->version, 1);
  EXPECT_TRUE(tier_->Look(kId)->owned);
  EXPECT_EQ(GetState(tier_.get(), kId, 1, 3).value(), "one");
  ASSERT_TRUE(PutState(tier_.get(), FullRecord('1', 2), 2, "new").ok());
  EXPECT_EQ(GetState(tier_.get(), kId, 2, 3).value(), "new");
}

TEST_F(TierRedisCut, TheFirstCommitThatArrivesLateIsRefusedToo) {
  proxy_.CutAt(kCommitText, RedisProxy::Cut::kCommand);
  EXPECT_TRUE(absl::IsUnavailable(PutState(tier_.get(), FullRecord('2', 1), 1, "one")));
  EXPECT_THAT(proxy_.Deliver(), HasSubstr("claimed"));
  EXPECT_THAT(Stored(tier_.get()), ElementsAre(kId + "@1"));
  const std::string key = "TTL tvq:session:" + std::string(32, '2');
  EXPECT_GT(std::stoi(redis_.Cli(key)), 0) << "what nobody stored is forgotten";
  ASSERT_TRUE(PutState(tier_.get(), FullRecord('2', 1), 1, "one").ok());
  EXPECT_EQ(redis_.Cli(key), "-1\n");
}

TEST_F(TierRedisCut, TheFirstCommitThatArrivesAfterTheDeleteIsRefused) {
  PutUnasked(FullRecord('2', 1), "one", RedisProxy::Cut::kCommand);
  const absl::Status status = tier_->Delete(std::string(32, '2'));
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_THAT(proxy_.Deliver(), HasSubstr("deleted"));
  EXPECT_THAT(Stored(tier_.get()), ElementsAre(kId + "@1"));
}

// Until it is known what became of the commit, its version may be replaced by the one before.
TEST_F(TierRedisCut, ACommitThatNobodyCouldAskForMayBeUndone) {
  PutUnasked(FullRecord('1', 2), "two", RedisProxy::Cut::kAnswer);
  EXPECT_EQ(tier_->Look(kId)->version, 2);
  ASSERT_TRUE(PutState(tier_.get(), FullRecord('1', 1), 1, "one").ok());
  EXPECT_EQ(tier_->Look(kId)->version, 1);
  EXPECT_TRUE(absl::IsNotFound(tier_->Get(kId, 2).status()));
  EXPECT_EQ(tier_->usage().bytes, 3);
  ASSERT_TRUE(PutState(tier_.get(), FullRecord('1', 2), 2, "new").ok());
  EXPECT_TRUE(absl::IsAborted(PutState(tier_.get(), FullRecord('1', 1), 1, "one")));
}

TEST_F(TierRedisCut, MarksThatComeFirstLeaveItUndone) {
  SessionRecord record = FullRecord('1', 2);
  record.marks = {{"here", 1, 7}};
  ASSERT_TRUE(PutState(tier_.get(), record, 2, "two").ok());
  PutUnasked(FullRecord('1', 3), "three", RedisProxy::Cut::kAnswer);
  EXPECT_EQ(tier_->Look(kId)->version, 3);
  ASSERT_TRUE(PutState(tier_.get(), record, 1, "one").ok());
  const absl::Status status = PutState(tier_.get(), record, 2, "two");
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(tier_->Look(kId)->version, 2);
  EXPECT_EQ(GetState(tier_.get(), kId, 1, 3).value(), "one");
  EXPECT_EQ(GetState(tier_.get(), kId, 2, 3).value(), "two");
  EXPECT_TRUE(absl::IsNotFound(tier_->Get(kId, 3).status()));
}

TEST_F(TierRedisCut, AnotherCommitThatFailsLeavesItUndone) {
  PutUnasked(FullRecord('1', 3), "three", RedisProxy::Cut::kAnswer);
  const SessionRecord before = FullRecord('1', 2);
  // Asked about at once, and later.
  proxy_.CutAt(kCommitText, RedisProxy::Cut::kCommand);
  EXPECT_TRUE(absl::IsUnavailable(PutState(tier_.get(), before, 2, "two")));
  PutUnasked(before, "two", RedisProxy::Cut::kCommand);
  const absl::Status status = PutState(tier_.get(), before, 2, "two");
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(tier_->Look(kId)->version, 2);
  EXPECT_TRUE(absl::IsAborted(PutState(tier_.get(), FullRecord('1', 1), 1, "one")));
}

TEST_F(TierRedisCut, AnotherCommitWhoseAnswerIsLostEndsIt) {
  PutUnasked(FullRecord('1', 3), "three", RedisProxy::Cut::kAnswer);
  proxy_.CutAt(kCommitText, RedisProxy::Cut::kAnswer);
  const absl::Status status = PutState(tier_.get(), FullRecord('1', 2), 2, "two");
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(tier_->Look(kId)->version, 2);
  EXPECT_TRUE(absl::IsAborted(PutState(tier_.get(), FullRecord('1', 1), 1, "one")));
}

TEST_F(TierRedis, LosingRedisInTheMiddleOfAPutIsAnError) {
  const std::string state = TestState(1, 50'000);
  const absl::Status status = tier_->Put(FullRecord('1', 1), 1, 50'000, [&](const ByteSink& sink) {
    const auto bytes = std::as_bytes(std::span(state));
    absl::Status first = sink(bytes.first(20'000));
    redis_.Kill();
    first.Update(sink(bytes.subspan(20'000)));
    return first;
  });
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
}

TEST_F(TierRedis, LosingRedisWhileReadingIsAnError) {
  ASSERT_TRUE(PutState(tier_.get(), FullRecord('1', 1), 1, TestState(1, 50'000)).ok());
  const std::unique_ptr<ByteSource> source = tier_->Get(kId, 1).value();
  std::vector<std::byte> part(10'000);
  ASSERT_TRUE(source->Read(part).ok());
  redis_.Kill();
  part.resize(40'000);
  const absl::Status status = source->Read(part);
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
}

TEST_F(TierRedis, AFrozenRedisIsGivenUpAndLeftAloneForAWhile) {
  timeout_ = absl::Milliseconds(200);
  tier_ = Open();
  redis_.Freeze();
  const absl::Status late = PutState(tier_.get(), FullRecord('1', 1), 1, "one");
  EXPECT_TRUE(absl::IsUnavailable(late)) << late;
  EXPECT_THAT(Message(late), HasSubstr("in time"));
  const absl::Status at_once = tier_->Find(kId).status();
  EXPECT_TRUE(absl::IsUnavailable(at_once)) << at_once;
  redis_.Thaw();
  absl::Status status;
  for (int i = 0; i < 1000; ++i) {
    status = PutState(tier_.get(), FullRecord('1', 1), 1, "one");
    if (status.ok()) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
  }
  EXPECT_TRUE(status.ok()) << status;
}

TEST_F(TierRedis, AFullRedisRefusesNewStatesAndServesTheRest) {
  const std::string state = TestState(1, 50'000);
  ASSERT_TRUE(PutState(tier_.get(), FullRecord('1', 1), 1, state).ok());
  ASSERT_TRUE(PutState(other_.get(), FullRecord('2', 1), 1, state).ok());
  redis_.Cli("CONFIG SET maxmemory 1000");
  const absl::Status status = PutState(tier_.get(), FullRecord('1', 2), 2, state);
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_THAT(Message(status), HasSubstr(redis_.url()));
  EXPECT_EQ(GetState(tier_.get(), kId, 1, 50'000).value(), state);
  EXPECT_TRUE(other_->Claim(kId, absl::Now()).ok());
  EXPECT_TRUE(other_->Look(kId)->owned);
  EXPECT_TRUE(other_->Touch(kId, absl::Now() + absl::Hours(1)).ok());
  EXPECT_TRUE(other_->Delete(kId).ok());
  EXPECT_THAT(Stored(tier_.get()), ElementsAre(std::string(32, '2') + "@1"));
  redis_.Cli("CONFIG SET maxmemory 0");
  EXPECT_TRUE(PutState(tier_.get(), FullRecord('3', 1), 1, state).ok());
}

TEST_F(TierRedis, AReplicaIsReadAndNotWritten) {
  ASSERT_TRUE(PutState(tier_.get(), FullRecord('1', 1), 1, "one").ok());
  redis_.Cli("CONFIG SET replica-serve-stale-data yes");
  redis_.Cli("REPLICAOF 127.0.0.1 1");  // nobody there
  const absl::Status status = PutState(tier_.get(), FullRecord('1', 2), 2, "two");
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_THAT(Message(status), HasSubstr("replica"));
  EXPECT_EQ(GetState(tier_.get(), kId, 1, 3).value(), "one");
}

}  // namespace
}  // namespace tvq
