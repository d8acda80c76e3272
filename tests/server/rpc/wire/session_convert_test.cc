#include "server/rpc/wire/session_convert.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/time/time.h"
#include "tests/server/message.h"

namespace tvq {
namespace {

using testing::StartsWith;

TEST(ToSessionCallTest, KeepsWhatIsSet) {
  v1::SessionCall message;
  message.set_session_id("s");
  message.set_expected_version(7);
  message.set_durability(v1::DURABILITY_DISK);
  message.set_idempotency_key("k");
  const auto call = ToSessionCall(message, 0, "ann");
  ASSERT_TRUE(call.ok()) << call.status();
  EXPECT_EQ(call->owner, "ann");
  EXPECT_EQ(call->id, "s");
  EXPECT_EQ(call->expected_version, 7);
  EXPECT_EQ(call->durability, Durability::kDisk);
  EXPECT_EQ(call->idempotency_key, "k");
  message.clear_expected_version();
  message.clear_durability();
  EXPECT_EQ(ToSessionCall(message, 0, "")->expected_version, std::nullopt);
  EXPECT_EQ(ToSessionCall(message, 0, "")->durability, Durability::kDefault);
}

TEST(ToSessionCallTest, ARetryHasTheHashOfTheFirstCall) {
  v1::MarkSessionRequest request;
  request.mutable_session()->set_session_id("s");
  request.set_name("m");
  EXPECT_EQ(ToSessionCall(request, "")->request_hash, 0U);
  request.mutable_session()->set_idempotency_key("k");
  const uint64_t first = ToSessionCall(request, "")->request_hash;
  EXPECT_NE(first, 0U);
  request.mutable_session()->set_durability(v1::DURABILITY_DISK);
  request.mutable_session()->set_expected_version(7);
  EXPECT_EQ(ToSessionCall(request, "")->request_hash, first);

  v1::UnmarkSessionRequest other;
  *other.mutable_session() = request.session();
  other.set_name("m");
  EXPECT_NE(ToSessionCall(other, "")->request_hash, first) << "of another method";
  request.set_name("n");
  EXPECT_NE(ToSessionCall(request, "")->request_hash, first);
}

TEST(ToCreateOptionsTest, ARetryHasTheHashOfTheFirstCall) {
  v1::CreateSessionRequest request;
  request.set_label("l");
  request.set_idempotency_key("k");
  const uint64_t first = ToCreateOptions(request)->request_hash;
  request.set_durability(v1::DURABILITY_DISK);
  EXPECT_EQ(ToCreateOptions(request)->request_hash, first);
  request.set_label("m");
  EXPECT_NE(ToCreateOptions(request)->request_hash, first);
}

TEST(ToSessionCallTest, NamesTheFieldThatIsWrong) {
  v1::SessionCall message;
  EXPECT_THAT(Message(ToSessionCall(message, 0, "").status()), StartsWith("session.session_id:"));
  message.set_session_id("s");
  message.set_durability(static_cast<v1::Durability>(9));
  EXPECT_THAT(Message(ToSessionCall(message, 0, "").status()),
              StartsWith("session.durability: is 9"));
  message.clear_durability();
  message.set_expected_version(-1);
  EXPECT_THAT(Message(ToSessionCall(message, 0, "").status()),
              StartsWith("session.expected_version: is -1"));
}

TEST(ToCreateOptionsTest, TimeToLive) {
  v1::CreateSessionRequest message;
  EXPECT_EQ(ToCreateOptions(message)->ttl, std::nullopt);
  message.mutable_ttl()->set_seconds(2);
  message.mutable_ttl()->set_nanos(500'000'000);
  EXPECT_EQ(ToCreateOptions(message)->ttl, absl::Milliseconds(2500));
  for (const auto& [seconds, nanos] : {std::pair<int64_t, int32_t>{0, 0},
                                       {-1, 0},
                                       {1, -1},
                                       {1, 1'000'000'000},
                                       {315'576'000'001, 0}}) {
    message.mutable_ttl()->set_seconds(seconds);
    message.mutable_ttl()->set_nanos(nanos);
    EXPECT_THAT(Message(ToCreateOptions(message).status()), StartsWith("ttl:"))
        << seconds << " " << nanos;
  }
}

TEST(ToCreateOptionsTest, SaysOfSpecialTokensOnlyWhatTheMessageSays) {
  v1::CreateSessionRequest message;
  EXPECT_EQ(ToCreateOptions(message)->add_special_tokens, std::nullopt);
  for (const bool add : {false, true}) {
    message.set_add_special_tokens(add);
    EXPECT_EQ(ToCreateOptions(message)->add_special_tokens, add);
    v1::Session session;
    ToProto(SessionView{.record = {.id = "s", .add_special_tokens = add}}, &session);
    EXPECT_EQ(session.add_special_tokens(), add);
  }
}

TEST(ToForkOptionsTest, ZeroMeansOne) {
  v1::ForkSessionRequest message;
  EXPECT_EQ(ToForkOptions(message)->count, 1);
  message.set_count(128);
  EXPECT_EQ(ToForkOptions(message)->count, 128);
  for (const int32_t count : {-1, 129}) {
    message.set_count(count);
    EXPECT_THAT(Message(ToForkOptions(message).status()), StartsWith("count:"));
  }
}

TEST(ToProtoTest, SessionThatNeverExpiresHasNoExpiry) {
  SessionView view{.record = {.id = "s",
                              .created = absl::FromUnixMillis(-1500),
                              .last_used = absl::FromUnixSeconds(100)},
                   .tier = Tier::kDurable};
  v1::Session message;
  ToProto(view, &message);
  EXPECT_FALSE(message.has_expire_time());
  EXPECT_EQ(message.tier(), v1::SESSION_TIER_DURABLE);
  // A timestamp's nanoseconds count forward.
  EXPECT_EQ(message.create_time().seconds(), -2);
  EXPECT_EQ(message.create_time().nanos(), 500'000'000);
  view.record.ttl = absl::Seconds(5);
  ToProto(view, &message);
  EXPECT_EQ(message.expire_time().seconds(), 105);
  v1::Session far;
  view.record.ttl = absl::Hours(24) * 366 * 10'000;
  ToProto(view, &far);
  EXPECT_FALSE(far.has_expire_time());
}

}  // namespace
}  // namespace tvq
