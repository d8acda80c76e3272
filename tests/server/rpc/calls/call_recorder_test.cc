#include "server/rpc/calls/call_recorder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/refusal.h"

namespace tvq {
namespace {

constexpr MethodInfo kRecordedGenerate{"GenerationService/Generate", Permission::kGenerate};
constexpr MethodInfo kRecordedScore{"GenerationService/Score", Permission::kGenerate};

std::map<std::string, int64_t> Finished(const CallRecorder& recorder) {
  std::map<std::string, int64_t> counts;
  for (const auto& [method, code, count] : recorder.counts().finished) {
    counts[absl::StrCat(method, " ", code)] = count;
  }
  return counts;
}

TEST(CallRecorderTest, CountsByMethodAndCode) {
  CallRecorder recorder(nullptr);
  const Caller caller;
  const absl::Status late = absl::DeadlineExceededError("late");
  recorder.Finished({kRecordedGenerate, caller, absl::OkStatus(), absl::Seconds(1)});
  recorder.Finished({kRecordedGenerate, caller, absl::OkStatus(), absl::Seconds(1)});
  recorder.Finished({kRecordedGenerate, caller, late, absl::Seconds(1)});
  recorder.Finished({kRecordedScore, caller, late, absl::Seconds(1)});
  EXPECT_THAT(Finished(recorder),
              testing::UnorderedElementsAre(
                  testing::Pair("GenerationService/Generate OK", 2),
                  testing::Pair("GenerationService/Generate DEADLINE_EXCEEDED", 1),
                  testing::Pair("GenerationService/Score DEADLINE_EXCEEDED", 1)));
}

TEST(CallRecorderTest, CountsWhatWasNotDoneByReason) {
  CallRecorder recorder(nullptr);
  const Caller caller;
  const auto finish = [&](const MethodInfo& method, const absl::Status& status) {
    recorder.Finished({method, caller, status, absl::Seconds(1)});
  };
  finish(kRecordedGenerate, absl::OkStatus());
  finish(kRecordedGenerate, Refused(Reason::kQueueFull, "the queue is full"));
  finish(kRecordedScore, Refused(Reason::kQueueFull, "the queue is full"));
  finish(kRecordedScore, Refused(Reason::kRateExceeded, "too fast"));
  finish(kRecordedScore, absl::UnavailableError("Redis is away"));
  std::map<Reason, int64_t> counts;
  for (const auto& [reason, count] : recorder.counts().rejected) counts[reason] = count;
  EXPECT_THAT(counts, testing::UnorderedElementsAre(testing::Pair(Reason::kQueueFull, 2),
                                                    testing::Pair(Reason::kRateExceeded, 1),
                                                    testing::Pair(Reason::kUnavailable, 1)));
}

TEST(CallRecorderTest, LogsEveryCall) {
  std::vector<std::string> lines;
  CallRecorder recorder([&](const FinishedCall& call) {
    lines.push_back(call.caller.request_id + " " + call.caller.owner + " " + call.method.name);
  });
  const Caller caller{.owner = "ana", .request_id = "r1"};
  recorder.Finished({kRecordedScore, caller, absl::OkStatus(), absl::Seconds(1)});
  EXPECT_THAT(lines, testing::ElementsAre("r1 ana GenerationService/Score"));
}

}  // namespace
}  // namespace tvq
