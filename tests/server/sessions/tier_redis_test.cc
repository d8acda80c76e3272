#include "server/sessions/tier_redis.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <functional>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "tests/server/sessions/durable_tier_contract.h"
#include "tests/server/sessions/redis_process.h"
#include "tests/server/sessions/redis_proxy.h"

namespace tvq {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

// Small, so that small states have many pieces.
constexpr int64_t kPieceBytes = 1024;

const std::string kId(32, '1');

std::string Message(const absl::Status& status) { return std::string(status.message()); }

class TierRedis : public ::testing::Test {
 protected:
  std::unique_ptr<DurableTier> Open() {
    return OpenRedisTier(
               redis_.url(),
               {.piece_bytes = kPieceBytes,
                .timeouts = {.connect = timeout_, .progress = timeout_, .query = timeout_}})
        .value();
  }

  absl::Duration timeout_ = absl::Seconds(30);
  RedisProcess redis_;
  std::unique_ptr<DurableTier> tier_ = Open();
  // Another server on the same Redis.
  std::unique_ptr<DurableTier> other_ = Open();
};

TEST_F(TierRedis, AClaimDuringAPutStopsIt) {
  ASSERT_TRUE(PutState(tier_.get(), FullRecord('1', 1), 1, TestState(1, 5000)).ok());
  const std::string state = TestState(2, 5000);
  const absl::Status status = tier_->Put(FullRecord('1', 2), 2, 5000, [&](const ByteSink& sink) {
    EXPECT_TRUE(other_->Claim(kId, absl::Now()).ok());
    return sink(std::as_bytes(std::span(state)));
  });
  EXPECT_TRUE(absl::IsAborted(status)) << status;
  EXPECT_EQ(GetState(other_.get(), kId, 1, 5000).value(), TestState(1, 5000));
  EXPECT_EQ(redis_.Cli("--scan --pattern 'tvq:piece:*:2:*'"), "");
}

TEST_F(TierRedis, WhoIsRefusedIsToldWhy) {
  ASSERT_TRUE(PutState(tier_.get(), FullRecord('1', 1), 1, TestState(1, 5000)).ok());
  ASSERT_TRUE(other_->Claim(kId, absl::Now()).ok());
  EXPECT_THAT(Message(PutState(tier_.get(), FullRecord('1', 2), 2, "two")),
              HasSubstr("another server"));
}

TEST_F(TierRedis, RemembersForADayThatASessionWasDeleted) {
  ASSERT_TRUE(PutState(tier_.get(), FullRecord('1', 1), 1, "one").ok());
  ASSERT_TRUE(tier_->Delete(kId).ok());
  EXPECT_THAT(redis_.Cli("TTL tvq:session:" + kId), StartsWith("86"));
}

// However a server hears of the end; else its memory would fill with sessions that are no more.
TEST_F(TierRedis, AClaimIsForgottenWithTheSession) {
  const SessionRecord record = FullRecord('1', 1);
  const std::vector<std::function<void()>> ways = {
      [&] { EXPECT_TRUE(tier_->DeleteUnused(kId, record.last_used).value()); },
      [&] {
        EXPECT_TRUE(other_->DeleteUnused(kId, record.last_used).value());
        EXPECT_FALSE(tier_->Look(kId)->owned);
      },
      [&] {
        EXPECT_TRUE(other_->DeleteUnused(kId, record.last_used).value());
        EXPECT_TRUE(absl::IsAborted(PutState(tier_.get(), record, 1, "one")));
      },
  };
  for (const std::function<void()>& hear : ways) {
    ASSERT_TRUE(PutState(tier_.get(), record, 1, "one").ok());
    hear();
    redis_.Cli("DEL tvq:session:" + kId);  // as after a day
    ASSERT_TRUE(PutState(other_.get(), record, 1, "one").ok());
    EXPECT_THAT(Message(PutState(tier_.get(), record, 1, "one")),
                HasSubstr("this server has none"));
    ASSERT_TRUE(other_->Delete(kId).ok());
    redis_.Cli("DEL tvq:session:" + kId);
  }
}

TEST_F(TierRedis, ARedisThatLostItsDataIsFilledAgain) {
  ASSERT_TRUE(PutState(tier_.get(), FullRecord('1', 1), 1, "one").ok());
  ASSERT_TRUE(PutState(other_.get(), FullRecord('2', 1), 1, "one").ok());
  const std::string instance = tier_->Instance().value();
  redis_.Kill();
  redis_.Start();
  EXPECT_NE(tier_->Instance().value(), instance);
  EXPECT_EQ(tier_->Look(kId)->version, 0);
  EXPECT_THAT(Stored(tier_.get()), IsEmpty());
  EXPECT_TRUE(tier_->Look(kId)->owned);
  ASSERT_TRUE(PutState(tier_.get(), FullRecord('1', 2), 2, "two").ok());
  EXPECT_EQ(GetState(tier_.get(), kId, 2, 3).value(), "two");
}

// A claim outlives the loss: the server that claimed later wins, whoever stores first.
TEST_F(TierRedis, ALostRedisDoesNotGiveTheSessionBackToAStaleServer) {
  ASSERT_TRUE(PutState(tier_.get(), FullRecord('1', 1), 1, "one").ok());
  ASSERT_TRUE(other_->Claim(kId, absl::Now()).ok());
  redis_.Kill();
  redis_.Start();
  ASSERT_TRUE(PutState(tier_.get(), FullRecord('1', 2), 2, "stale").ok());
  ASSERT_TRUE(PutState(other_.get(), FullRecord('1', 2), 2, "valid").ok());
  EXPECT_TRUE(absl::IsAborted(PutState(tier_.get(), FullRecord('1', 3), 3, "stale")));
  EXPECT_EQ(GetState(other_.get(), kId, 2, 5).value(), "valid");
}

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

TEST_F(TierRedis, AMissingPieceIsNamed) {
  ASSERT_TRUE(PutState(tier_.get(), FullRecord('1', 7), 7, TestState(1, 5000)).ok());
  const std::string key = redis_.Cli("--scan --pattern 'tvq:piece:*:3'");
  ASSERT_THAT(key, HasSubstr(kId + ":7:"));
  redis_.Cli("DEL " + key);
  const absl::Status status = tier_->Get(kId, 7).status();
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(Message(status), HasSubstr("version 7: piece 3"));
  EXPECT_EQ(tier_->usage().corrupt, 1);
}

TEST_F(TierRedis, AShortenedPieceIsNamed) {
  ASSERT_TRUE(PutState(tier_.get(), FullRecord('1', 7), 7, TestState(1, 5000)).ok());
  const std::string key = redis_.Cli("--scan --pattern 'tvq:piece:*:4'");
  redis_.Cli("SET " + key.substr(0, key.size() - 1) + " short");
  const absl::Status status = tier_->Get(kId, 7).status();
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(Message(status), HasSubstr("piece 4"));
  EXPECT_THAT(Message(status), HasSubstr(absl::StrCat("5 of ", 5000 - 4 * kPieceBytes, " bytes")));
}

TEST_F(TierRedis, APieceLostWhileReadingIsNamed) {
  ASSERT_TRUE(PutState(tier_.get(), FullRecord('1', 7), 7, TestState(1, 5000)).ok());
  const std::unique_ptr<ByteSource> source = tier_->Get(kId, 7).value();
  std::vector<std::byte> part(10);
  ASSERT_TRUE(source->Read(part).ok());
  redis_.Cli("DEL " + redis_.Cli("--scan --pattern 'tvq:piece:*:3'"));
  part.resize(4990);
  const absl::Status status = source->Read(part);
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(Message(status), HasSubstr("piece 3"));
}

TEST_F(TierRedis, AVersionReplacedWhileItIsReadIsNoCorruption) {
  ASSERT_TRUE(PutState(tier_.get(), FullRecord('1', 7), 7, TestState(1, 5000)).ok());
  const std::unique_ptr<ByteSource> source = tier_->Get(kId, 7).value();
  ASSERT_TRUE(PutState(tier_.get(), FullRecord('1', 8), 8, TestState(2, 5000)).ok());
  std::vector<std::byte> all(5000);
  const absl::Status status = source->Read(all);
  EXPECT_TRUE(absl::IsAborted(status)) << status;
  EXPECT_EQ(tier_->usage().corrupt, 0);
}

TEST_F(TierRedis, ACorruptRecordIsLeftOutAndCounted) {
  ASSERT_TRUE(PutState(tier_.get(), FullRecord('1', 1), 1, "one").ok());
  ASSERT_TRUE(PutState(tier_.get(), FullRecord('2', 1), 1, "one").ok());
  redis_.Cli("HSET tvq:session:" + kId + " record '{\"id\":'");
  EXPECT_THAT(Stored(tier_.get()), ElementsAre(std::string(32, '2') + "@1"));
  EXPECT_TRUE(absl::IsDataLoss(tier_->Find(kId).status()));
  EXPECT_EQ(tier_->usage().corrupt, 1);
}

// A record comes with its own state; what came before it goes if it never comes.
TEST_F(TierRedis, AMarkWithoutARecordExpires) {
  SessionRecord record = FullRecord('1', 5);
  record.marks = {{"here", 3, 7}};
  ASSERT_TRUE(PutState(tier_.get(), record, 3, "three").ok());
  EXPECT_THAT(Stored(tier_.get()), IsEmpty());
  EXPECT_EQ(tier_->usage().bytes, 0);
  const std::string key = redis_.Cli("--scan --pattern 'tvq:piece:*:3:*'");
  for (const std::string& any : {"tvq:session:" + kId + "\n", key}) {
    EXPECT_GT(std::stoi(redis_.Cli("TTL " + any)), 0) << any;
  }
  ASSERT_TRUE(PutState(tier_.get(), record, 5, "five!").ok());
  for (const std::string& any : {"tvq:session:" + kId + "\n", key}) {
    EXPECT_EQ(redis_.Cli("TTL " + any), "-1\n") << any;
  }
  EXPECT_EQ(tier_->usage().bytes, 10);
  EXPECT_THAT(Stored(tier_.get()), ElementsAre(kId + "@5"));
  ASSERT_TRUE(tier_->Delete(kId).ok());
  EXPECT_EQ(tier_->usage().bytes, 0);
}

TEST_F(TierRedis, ARecordWhoseMarkExpiredIsRefused) {
  SessionRecord record = FullRecord('1', 5);
  record.marks = {{"here", 3, 7}};
  ASSERT_TRUE(PutState(tier_.get(), record, 3, "three").ok());
  redis_.Cli("DEL " + redis_.Cli("--scan --pattern 'tvq:piece:*:3:*'"));
  const absl::Status status = PutState(tier_.get(), record, 5, "five!");
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_TRUE(absl::IsNotFound(tier_->Find(kId).status()));
}

// So that a session with many marks may take longer than any of its states.
TEST_F(TierRedis, WhatComesBeforeTheRecordExpiresTogether) {
  SessionRecord record = FullRecord('1', 5);
  record.marks = {{"here", 3, 7}, {"there", 4, 7}};
  ASSERT_TRUE(PutState(tier_.get(), record, 3, TestState(3, 2000)).ok());
  const auto seconds_left = [&](const std::string& key) {
    return std::stoi(redis_.Cli("TTL " + key));
  };
  const std::string first = redis_.Cli("--scan --pattern 'tvq:piece:*:3:*:0'");
  const std::string second = redis_.Cli("--scan --pattern 'tvq:piece:*:3:*:1'");
  for (const std::string& key : {first, second, "tvq:session:" + kId + "\n"}) {
    redis_.Cli("EXPIRE " + key.substr(0, key.size() - 1) + " 60");
    EXPECT_LE(seconds_left(key), 60);
  }
  ASSERT_TRUE(PutState(tier_.get(), record, 4, "four").ok());
  for (const std::string& key : {first, second, "tvq:session:" + kId + "\n"}) {
    EXPECT_GT(seconds_left(key), 60) << key;
  }
  EXPECT_GT(seconds_left(redis_.Cli("--scan --pattern 'tvq:piece:*:4:*:0'")), 60);
}

TEST_F(TierRedis, ARecordWhoseManifestExpiredMeanwhileIsRefused) {
  SessionRecord record = FullRecord('1', 5);
  record.marks = {{"here", 3, 7}};
  ASSERT_TRUE(PutState(tier_.get(), record, 3, "three").ok());
  const std::string state = "five!";
  const absl::Status status = tier_->Put(record, 5, 5, [&](const ByteSink& sink) {
    redis_.Cli("DEL tvq:session:" + kId);
    return sink(std::as_bytes(std::span(state)));
  });
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_THAT(Message(status), HasSubstr("lost"));
  EXPECT_TRUE(absl::IsNotFound(tier_->Find(kId).status()));
  for (const int64_t version : {3, 5}) {
    ASSERT_TRUE(PutState(tier_.get(), record, version, "again").ok());
  }
  EXPECT_EQ(GetState(tier_.get(), kId, 3, 5).value(), "again");
}

TEST_F(TierRedis, PiecesNobodyCommittedExpire) {
  ASSERT_TRUE(PutState(tier_.get(), FullRecord('1', 1), 1, "one").ok());
  const std::string state = TestState(2, 5000);
  const absl::Status status = tier_->Put(FullRecord('1', 2), 2, 5000, [&](const ByteSink& sink) {
    absl::Status sent = sink(std::as_bytes(std::span(state)));
    const std::string key = redis_.Cli("--scan --pattern 'tvq:piece:*:2:*:0'");
    const int seconds = std::stoi(redis_.Cli("TTL " + key));
    EXPECT_GT(seconds, 0);
    EXPECT_LE(seconds, 600);
    return sent;
  });
  ASSERT_TRUE(status.ok()) << status;
  const std::string key = redis_.Cli("--scan --pattern 'tvq:piece:*:2:*:0'");
  EXPECT_EQ(redis_.Cli("TTL " + key), "-1\n");
  EXPECT_EQ(redis_.Cli("--scan --pattern 'tvq:piece:*:1:*'"), "");
}

TEST_F(TierRedis, ExpiredPiecesFailTheCommit) {
  const std::string state = TestState(2, 5000);
  const absl::Status status = tier_->Put(FullRecord('1', 1), 1, 5000, [&](const ByteSink& sink) {
    absl::Status sent = sink(std::as_bytes(std::span(state)));
    redis_.Cli("DEL " + redis_.Cli("--scan --pattern 'tvq:piece:*:2'"));
    return sent;
  });
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_THAT(Message(status), HasSubstr("piece 2"));
  EXPECT_TRUE(absl::IsNotFound(tier_->Find(kId).status()));
  EXPECT_EQ(redis_.Cli("--scan --pattern 'tvq:piece:*'"), "");
}

TEST_F(TierRedis, PasswordsAreUsedAndNeverShown) {
  redis_.Cli("CONFIG SET requirepass s3cret");
  const absl::Status none = OpenRedisTier(redis_.url(), {}).status();
  EXPECT_TRUE(absl::IsUnavailable(none)) << none;
  EXPECT_THAT(Message(none), HasSubstr("wants a password"));
  const absl::Status wrong = OpenRedisTier("unix://:wr0ng@" + redis_.socket(), {}).status();
  EXPECT_TRUE(absl::IsUnavailable(wrong)) << wrong;
  EXPECT_THAT(Message(wrong), HasSubstr(redis_.url()));
  EXPECT_THAT(Message(wrong), Not(HasSubstr("wr0ng")));
  EXPECT_TRUE(OpenRedisTier("unix://:s3cret@" + redis_.socket(), {}).ok());
  EXPECT_TRUE(OpenRedisTier("unix://default:s3cret@" + redis_.socket(), {}).ok());
}

TEST_F(TierRedis, ARedisThatDropsKeysIsRefused) {
  redis_.Cli("CONFIG SET maxmemory-policy allkeys-lru");
  EXPECT_TRUE(OpenRedisTier(redis_.url(), {}).ok());
  redis_.Cli("CONFIG SET maxmemory 100mb");
  const absl::Status status = OpenRedisTier(redis_.url(), {}).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(Message(status), HasSubstr("noeviction"));
}

// A port that was free a moment ago.
int FreePort() {
  const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  EXPECT_EQ(bind(socket, reinterpret_cast<sockaddr*>(&address), size), 0);
  EXPECT_EQ(getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size), 0);
  close(socket);
  return ntohs(address.sin_port);
}

TEST(TierRedisOverTcp, StoresInTheGivenDatabase) {
  const int port = FreePort();
  const RedisProcess redis({"--bind", "127.0.0.1", "--port", absl::StrCat(port)});
  const std::unique_ptr<DurableTier> tier =
      OpenRedisTier(absl::StrCat("redis://127.0.0.1:", port, "/5"), {}).value();
  const std::string state = TestState(1, 20'000'000);  // pieces of the default size
  ASSERT_TRUE(PutState(tier.get(), FullRecord('1', 1), 1, state).ok());
  EXPECT_TRUE(GetState(tier.get(), kId, 1, 20'000'000).value() == state);
  EXPECT_THAT(redis.Cli("-n 5 EXISTS tvq:session:" + kId), StartsWith("1"));
  EXPECT_THAT(redis.Cli("-n 0 EXISTS tvq:session:" + kId), StartsWith("0"));
  EXPECT_EQ(redis.Cli("-n 5 --scan --pattern 'tvq:piece:*:2'").empty(), false);
  EXPECT_EQ(redis.Cli("-n 5 --scan --pattern 'tvq:piece:*:3'"), "");
}

TEST(TierRedisOverTcp, NobodyThereIsUnavailable) {
  const absl::Status status =
      OpenRedisTier(absl::StrCat("redis://:secret@127.0.0.1:", FreePort()), {}).status();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_THAT(Message(status), HasSubstr("redis://127.0.0.1:"));
  EXPECT_THAT(Message(status), Not(HasSubstr("secret")));
}

}  // namespace
}  // namespace tvq
