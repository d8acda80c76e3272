// What is kept of a request that was cancelled, or ended otherwise before its end.
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tests/server/engine/session_calls.h"

namespace tvq {
namespace {

using std::chrono::milliseconds;

TEST(EngineCancelTest, KeepsWhatWasSaidOnlyWhenAsked) {
  Harness h;
  for (const bool keep_on_cancel : {false, true}) {
    TestSession session;
    Call(*h.engine, session, Purpose::kAppend, "say ");
    const std::vector<int32_t> before = session.tokens;
    auto sink = std::make_shared<RecordingSink>();
    Request request = On(session, sink, Purpose::kGenerate, "on",
                         {.temperature = 0, .ignore_eos = true, .max_tokens = kForever});
    request.keep_on_cancel = keep_on_cancel;
    const auto handle = h.engine->Submit(request);
    sink->WaitDeltas(5);
    h.engine->Cancel(*handle);
    EXPECT_TRUE(absl::IsCancelled(sink->Wait()));
    std::optional<Continuation> kept = sink->TakeKept();
    ASSERT_EQ(kept.has_value(), keep_on_cancel);
    if (!kept) continue;
    session.Commit(*std::move(kept));
    EXPECT_EQ(session.tokens, Joined(Joined(before, Ids("on")), sink->sample().tokens));
    const std::vector<int32_t> context = session.tokens;
    const auto next = Call(*h.engine, session, Purpose::kScore, "z", {.prompt_logprobs = 0});
    EXPECT_FLOAT_EQ(next->prompt()[0].token.logprob, h.model->Logprob(context, ByteId('z')));
  }
}

TEST(EngineCancelTest, KeepsNothingOfWhatEndedForAnotherReason) {
  Harness h({}, {.max_num_batched_tokens = 32,
                 .paused_timeout = milliseconds(20),
                 .state_memory_bytes = 1'000'000});
  const auto endless = [&](const std::shared_ptr<RecordingSink>& sink) {
    Request request = Ask(sink, "on", {.ignore_eos = true, .max_tokens = kForever});
    request.keep = request.keep_on_cancel = true;
    return request;
  };
  auto late = std::make_shared<RecordingSink>();
  Request request = endless(late);
  request.deadline = std::chrono::steady_clock::now() + milliseconds(50);
  ASSERT_TRUE(h.engine->Submit(request).ok());
  EXPECT_TRUE(absl::IsDeadlineExceeded(late->Wait()));
  EXPECT_GT(late->sample().tokens.size(), 0U);
  EXPECT_FALSE(late->TakeKept());

  auto stalled = std::make_shared<RecordingSink>();
  stalled->on_delta = [&](const Delta&) { stalled->wants_more = false; };
  ASSERT_TRUE(h.engine->Submit(endless(stalled)).ok());
  EXPECT_TRUE(absl::IsDeadlineExceeded(stalled->Wait()));
  EXPECT_FALSE(stalled->TakeKept());

  auto stopped = std::make_shared<RecordingSink>();
  ASSERT_TRUE(h.engine->Submit(endless(stopped)).ok());
  stopped->WaitDeltas(5);
  EXPECT_FALSE(h.engine->Drain(std::chrono::steady_clock::now()));
  EXPECT_TRUE(absl::IsUnavailable(stopped->Wait()));
  EXPECT_FALSE(stopped->TakeKept());
}

TEST(EngineCancelTest, AtRandomPointsASessionIsWholeEitherWay) {
  Harness h({}, {.max_num_seqs = 6, .max_num_batched_tokens = 16, .state_memory_bytes = 100'000});
  std::mt19937 random(3);
  Worker worker;
  for (int round = 0; round < 300; ++round) {
    TestSession session;
    Call(*h.engine, session, round % 2 == 0 ? Purpose::kAppend : Purpose::kGenerate, "begin");
    const auto bits = session.Bits();
    auto sink = std::make_shared<RecordingSink>();
    Request request = On(session, sink, Purpose::kGenerate, std::string(random() % 40, 'p'),
                         {.temperature = 0, .ignore_eos = true, .max_tokens = kForever});
    request.start = session.Start(&worker, std::chrono::microseconds(random() % 100));
    request.keep_on_cancel = random() % 2 == 0;
    const auto handle = h.engine->Submit(request);
    ASSERT_TRUE(handle.ok()) << handle.status();
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 500));
    h.engine->Cancel(*handle);
    EXPECT_TRUE(absl::IsCancelled(sink->Wait()));
    EXPECT_EQ(session.Bits(), bits);
    if (std::optional<Continuation> kept = sink->TakeKept()) {
      EXPECT_TRUE(request.keep_on_cancel);
      const std::vector<int32_t> whole =
          Joined(Joined(session.tokens, request.prompt), sink->sample().tokens);
      session.Commit(*std::move(kept));
      EXPECT_EQ(session.tokens, whole);
    }
    const std::vector<int32_t> context = session.tokens;
    const auto next = Call(*h.engine, session, Purpose::kScore, "z", {.prompt_logprobs = 0});
    ASSERT_FLOAT_EQ(next->prompt()[0].token.logprob, h.model->Logprob(context, ByteId('z')));
  }
}

}  // namespace
}  // namespace tvq
