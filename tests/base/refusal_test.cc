#include "base/refusal.h"

#include <gtest/gtest.h>

#include <fstream>
#include <regex>
#include <set>
#include <sstream>
#include <string>

#include "absl/strings/str_cat.h"

namespace tvq {
namespace {

TEST(RefusalTest, CarriesReasonFieldAndRetry) {
  const absl::Status status = Refused(Reason::kContextTooLong, "text", "has 9 tokens");
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(), "text: has 9 tokens");
  EXPECT_EQ(RefusalOf(status),
            (Refusal{.reason = Reason::kContextTooLong, .field = "text", .retry = Retry::kNever}));
}

TEST(RefusalTest, OfNoFieldHasItsMessageAlone) {
  const absl::Status status = Refused(Reason::kQueueFull, "the queue is full: 3 wait");
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(status.message(), "the queue is full: 3 wait");
  EXPECT_EQ(RefusalOf(status), (Refusal{.reason = Reason::kQueueFull,
                                        .retry = Retry::kAfter,
                                        .retry_after_ms = kRetryAfterMs}));
}

TEST(RefusalTest, SaysItselfWhenToRetry) {
  const Refusal refusal{.reason = Reason::kRateExceeded,
                        .field = "a field",
                        .retry = Retry::kAfter,
                        .retry_after_ms = 12345678901};
  const absl::Status status = Refused(refusal, "too fast");
  EXPECT_EQ(RefusalOf(status), refusal);
  EXPECT_EQ(status.message(), "a field: too fast");
}

TEST(RefusalTest, AnotherMessageKeepsTheRefusal) {
  const absl::Status first = Refused(Reason::kSessionBusy, "session_id", "is busy");
  const absl::Status second =
      WithRefusal(RefusalOf(first), absl::StrCat(first.message(), "; wait"));
  EXPECT_EQ(second.code(), absl::StatusCode::kAborted);
  EXPECT_EQ(second.message(), "session_id: is busy; wait");
  EXPECT_EQ(RefusalOf(second), RefusalOf(first));
}

TEST(RefusalTest, StatusesWithoutOneStandForOneOfTheirCode) {
  for (int code = 1; code <= 16; ++code) {
    const absl::Status status(static_cast<absl::StatusCode>(code), "x");
    EXPECT_FALSE(FindRefusal(status));
    const absl::StatusCode of_reason = InfoOf(RefusalOf(status).reason).code;
    switch (status.code()) {
      case absl::StatusCode::kOutOfRange:
        EXPECT_EQ(of_reason, absl::StatusCode::kInvalidArgument);
        break;
      case absl::StatusCode::kAlreadyExists:
        EXPECT_EQ(of_reason, absl::StatusCode::kAborted);
        break;
      case absl::StatusCode::kUnknown:
        EXPECT_EQ(of_reason, absl::StatusCode::kInternal);
        break;
      default:
        EXPECT_EQ(of_reason, status.code());
    }
  }
}

TEST(RefusalTest, TakesTheFieldOffAMessage) {
  const Refusal refusal{.reason = Reason::kValueInvalid, .field = "stop[2]"};
  EXPECT_EQ(WithoutField("stop[2]: is empty", refusal), "is empty");
  EXPECT_EQ(WithoutField("is empty", refusal), "is empty");
  EXPECT_EQ(WithoutField(": is empty", Refusal{}), ": is empty");
}

TEST(RefusalTest, FindsReasonsByName) {
  for (const ReasonInfo& info : Reasons()) {
    const ReasonInfo* const found = FindReason(info.name);
    ASSERT_NE(found, nullptr);
    EXPECT_EQ(found->reason, info.reason);
    EXPECT_EQ(&InfoOf(info.reason), found);
  }
  EXPECT_EQ(FindReason("NO_SUCH_REASON"), nullptr);
  EXPECT_EQ(FindReason(""), nullptr);
}

// | `VALUE_INVALID` | `INVALID_ARGUMENT` | 400 | never | ...
TEST(RefusalTest, TheTableOfTheProtoHasAllOfThem) {
  std::ifstream file("proto/README.md");
  std::stringstream text;
  text << file.rdbuf();
  ASSERT_FALSE(text.str().empty());
  const std::regex row(R"(\n\| `([A-Z_]+)` \| `([A-Z_]+)` \| \d+ \| (now|after|never) \|)");
  const std::string all = text.str();
  std::set<std::string> told;
  for (std::sregex_iterator it(all.begin(), all.end(), row), end; it != end; ++it) {
    told.insert(absl::StrCat((*it)[1].str(), " ", (*it)[2].str(), " ", (*it)[3].str()));
  }
  std::set<std::string> known;
  for (const ReasonInfo& info : Reasons()) {
    const char* const retry = info.retry == Retry::kNow     ? "now"
                              : info.retry == Retry::kAfter ? "after"
                                                            : "never";
    known.insert(
        absl::StrCat(std::string(info.name), " ", absl::StatusCodeToString(info.code), " ", retry));
  }
  EXPECT_EQ(told, known);
}

}  // namespace
}  // namespace tvq
