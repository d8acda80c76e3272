#include "client/loadtest/statistics/recorder.h"

#include <gtest/gtest.h>

namespace tvq::loadtest {
namespace {

using Result = RequestRecord::Result;

RequestRecord Ok(Nanos intended, Nanos sent, Nanos first, Nanos last, int64_t tokens) {
  return {.intended = intended,
          .sent = sent,
          .first_token = first,
          .last_token = last,
          .end = last,
          .tokens = tokens};
}

TEST(Recorder, OpenLoopCountsFromWhenARequestWasDue) {
  Recorder recorder({.duration = 10 * kSecond, .open_loop = true});
  recorder.Ended(Ok(0, kSecond, 3 * kSecond, 5 * kSecond, 5));
  const Summary summary = recorder.Finish();
  EXPECT_EQ(summary.ttft.max(), 3 * kSecond);
  EXPECT_EQ(summary.e2e.max(), 5 * kSecond);
  EXPECT_EQ(summary.other_ttft.max(), 2 * kSecond);
  EXPECT_EQ(summary.other_e2e.max(), 4 * kSecond);
  EXPECT_EQ(summary.send_lag.max(), kSecond);
  EXPECT_EQ(summary.tpot.max(), kSecond / 2);  // 2 s, 4 gaps
}

TEST(Recorder, ClosedLoopCountsFromSendingAndCorrects) {
  Recorder recorder({.duration = 100 * kSecond});
  for (int i = 0; i < 9; ++i)
    recorder.Ended(Ok(0, i * kSecond, (i + 1) * kSecond, (i + 1) * kSecond, 1));
  recorder.Ended(Ok(0, 9 * kSecond, 19 * kSecond, 19 * kSecond, 1));  // ten times the median
  const Summary summary = recorder.Finish();
  EXPECT_EQ(summary.e2e.count(), 10);
  EXPECT_EQ(summary.other_e2e.count(), 10 + 9);  // 9, 8, ..., 1 s beside the 10 s
  EXPECT_EQ(summary.send_lag.count(), 0);
}

TEST(Recorder, WarmUpAndTheTimeAfterDoNotCount) {
  Recorder recorder({.warm_up = 2 * kSecond, .duration = 4 * kSecond, .open_loop = true});
  const auto request = [&](double due, double end) {
    const Nanos at = FromSeconds(end);
    recorder.Arrived(FromSeconds(due));
    recorder.Tokens(at, 10);
    recorder.Ended(Ok(FromSeconds(due), FromSeconds(due), at, at, 10));
    recorder.Cancelled(FromSeconds(due), kMillisecond);
    recorder.Operation(FromSeconds(due), "create session", kMillisecond);
    recorder.Reconnected(FromSeconds(due));
  };
  request(1, 1.5);  // warm-up
  request(1.9, 3);  // due before, ends within: throughput alone
  request(3, 4);
  request(5, 7);  // due within, ends after: latency alone
  request(6, 6.5);
  const Summary summary = recorder.Finish();
  EXPECT_EQ(summary.requests, 2);
  EXPECT_EQ(summary.ttft.count(), 2);
  EXPECT_EQ(summary.ttft.max(), 2 * kSecond);
  EXPECT_EQ(summary.cancel.count(), 2);
  EXPECT_EQ(summary.operations.at("create session").count(), 2);
  EXPECT_EQ(summary.reconnects, 2);
  EXPECT_DOUBLE_EQ(summary.request_rate, 2 / 4.0);
  EXPECT_DOUBLE_EQ(summary.token_rate, 20 / 4.0);
  EXPECT_DOUBLE_EQ(summary.offered_rate, 2 / 4.0);
  int64_t arrived = 0, tokens = 0;
  for (const Interval& interval : summary.series) {
    arrived += interval.arrived;
    tokens += interval.tokens;
  }
  EXPECT_EQ(arrived, 4);  // the series shows the warm-up, too
  EXPECT_EQ(tokens, 30);
}

TEST(Recorder, GoodputWantsBothPartsOfTheSlo) {
  Recorder recorder({.duration = 10 * kSecond,
                     .open_loop = true,
                     .slo = {.ttft = kSecond, .itl = 100 * kMillisecond}});
  recorder.Ended(Ok(0, 0, kSecond, 2 * kSecond, 11));            // both at the limit
  recorder.Ended(Ok(0, 0, kSecond + 1, 2 * kSecond, 11));        // first token late
  recorder.Ended(Ok(0, 0, kSecond, 2 * kSecond + 10, 11));       // tokens 1 ns too slow
  recorder.Ended(Ok(0, kSecond, kSecond + 1, 2 * kSecond, 11));  // sent late: still late
  const Summary summary = recorder.Finish();
  EXPECT_EQ(summary.ok, 4);
  EXPECT_EQ(summary.met_slo, 1);
  EXPECT_DOUBLE_EQ(summary.goodput, 0.1);
}

TEST(Recorder, GoodputIsOfThoseThatCanBeGood) {
  Recorder recorder({.duration = 10 * kSecond, .open_loop = true, .slo = {.ttft = 2 * kSecond}});
  const RequestRecord well = Ok(0, 0, kSecond, 9 * kSecond, 5);
  RequestRecord slow = well, cancelled = well, failed = well;
  slow.behaviour = Behaviour::kSlowReader;
  cancelled.behaviour = Behaviour::kCancels;
  cancelled.result = Result::kCancelled;
  failed.result = Result::kFailed;
  for (const RequestRecord& request : {well, slow, cancelled, failed}) recorder.Ended(request);
  const Summary summary = recorder.Finish();
  EXPECT_EQ(summary.ordinary, 2);
  EXPECT_EQ(summary.met_slo, 1);
  EXPECT_DOUBLE_EQ(summary.goodput, 0.1);
}

TEST(Recorder, FailuresHaveTheirOwnLatencies) {
  Recorder recorder({.duration = 10 * kSecond, .open_loop = true});
  recorder.Refused(0, "RESOURCE_EXHAUSTED", "the queue is full", 2 * kMillisecond, true);
  recorder.Refused(0, "RESOURCE_EXHAUSTED", "another", 4 * kMillisecond, true);
  recorder.Ended({.result = Result::kFailed, .status = "RESOURCE_EXHAUSTED", .attempts = 2});
  const Summary summary = recorder.Finish();
  EXPECT_EQ(summary.failed, 1);
  EXPECT_EQ(summary.retries, 1);
  EXPECT_EQ(summary.e2e.count(), 0);
  const FailureStats& stats = summary.failures.at("RESOURCE_EXHAUSTED");
  EXPECT_EQ(stats.requests, 1);
  EXPECT_EQ(stats.attempts, 2);
  EXPECT_EQ(stats.with_retry_after, 2);
  EXPECT_EQ(stats.latency.max(), 4 * kMillisecond);
  EXPECT_EQ(stats.example, "the queue is full");
}

TEST(Recorder, SlowReadersAndCancelsLeaveLatenciesAlone) {
  Recorder recorder({.duration = 10 * kSecond, .open_loop = true});
  RequestRecord slow = Ok(0, 0, kSecond, 9 * kSecond, 5);
  slow.behaviour = Behaviour::kSlowReader;
  recorder.Ended(slow);
  RequestRecord cancelled = Ok(0, 0, kSecond, 2 * kSecond, 5);
  cancelled.behaviour = Behaviour::kCancels;
  cancelled.result = Result::kCancelled;
  recorder.Ended(cancelled);
  const Summary summary = recorder.Finish();
  EXPECT_EQ(summary.requests, 2);
  EXPECT_EQ(summary.slow_readers, 1);
  EXPECT_EQ(summary.cancelled, 1);
  EXPECT_EQ(summary.failed, 0);
  EXPECT_EQ(summary.e2e.count(), 0);
}

TEST(Recorder, TokensThatComeTogetherHaveOneGap) {
  Recorder recorder({.duration = kSecond});
  recorder.Gap(7 * kMillisecond, 3);
  recorder.Gap(7 * kMillisecond, 1);
  const Summary summary = recorder.Finish();
  EXPECT_EQ(summary.itl.count(), 4);
  EXPECT_EQ(summary.itl.Percentile(0.5), 0);
  EXPECT_EQ(summary.itl.max(), 7 * kMillisecond);
}

TEST(Recorder, AWindowThatEndsEarlyHasItsOwnRates) {
  Recorder recorder({.duration = 100 * kSecond});
  recorder.Ended(Ok(0, 0, kSecond, kSecond, 1));
  recorder.EndAt(2 * kSecond);
  EXPECT_DOUBLE_EQ(recorder.Finish().request_rate, 0.5);
}

}  // namespace
}  // namespace tvq::loadtest
