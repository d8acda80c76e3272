#include "server/sessions/durable/redis/tier_redis.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <functional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "tests/server/sessions/durable_tier_contract.h"
#include "tests/server/sessions/tier_redis_fixture.h"

namespace tvq {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

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
        tier_->ForgetClaim(kId);
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

TEST_F(TierRedis, WithoutABudgetTakesNineTenthsOfWhatIsFree) {
  const auto budget = [&](int64_t asked) {
    return OpenRedisTier(redis_.url(), {.budget_bytes = asked}).value()->usage().budget;
  };
  const int64_t of_machine = budget(0);
  EXPECT_GT(of_machine, int64_t{100} << 20);
  EXPECT_EQ(budget(77), 77);
  redis_.Cli("CONFIG SET maxmemory 100mb");
  EXPECT_GT(budget(0), int64_t{60} << 20);
  EXPECT_LT(budget(0), int64_t{90} << 20);
  ASSERT_TRUE(PutState(tier_.get(), FullRecord('1', 1), 1, TestState(1, 20'000'000)).ok());
  EXPECT_GT(budget(0), int64_t{60} << 20) << "what is there counts beside what is free";
  redis_.Cli("CONFIG SET maxmemory 1");
  EXPECT_EQ(budget(0), 20'000'000) << "and a Redis that is full has what it has";
  redis_.Cli("CONFIG SET maxmemory 0");
  redis_.Cli("ACL SETUSER default -info");
  EXPECT_EQ(budget(0), 0) << "it does not say";
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
