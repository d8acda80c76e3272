#include "server/sessions/store/session_index.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"

namespace tvq {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

absl::Time At(int64_t second) { return absl::FromUnixSeconds(second); }

// Of the sessions "1" to "5", each of which ends at that second.
class EndedSessionsTest : public testing::Test {
 protected:
  EndedSessionsTest() {
    for (int64_t second = 1; second <= 5; ++second) {
      auto content = std::make_shared<SessionContent>();
      content->record = {.id = std::to_string(second), .ttl = absl::Seconds(second)};
      auto entry = std::make_shared<SessionEntry>(EntryState::kIdle);
      entry->content = std::move(content);
      entry->last_used = At(0);
      table_.Insert(std::move(entry));
    }
  }

  // The ids that are shown; the visit ends at `last`.
  std::vector<std::string> Visit(int64_t most, const std::string& last = "") {
    std::vector<std::string> shown;
    const int64_t count = table_.VisitEnded(now_, most, &after_, [&](const EntryPtr& entry) {
      shown.push_back(entry->content->record.id);
      return shown.back() != last;
    });
    EXPECT_EQ(count, static_cast<int64_t>(shown.size()));
    if (!shown.empty()) {
      EXPECT_EQ(after_.second, shown.back());
    }
    return shown;
  }

  SessionIndex table_;
  absl::Time now_ = At(4);
  SessionIndex::End after_;
};

TEST_F(EndedSessionsTest, AreVisitedInTurnsWithoutTheOthers) {
  EXPECT_THAT(Visit(3), ElementsAre("1", "2", "3"));
  EXPECT_THAT(Visit(3), ElementsAre("4", "1", "2"));
  EXPECT_THAT(Visit(3), ElementsAre("3", "4", "1"));
}

TEST_F(EndedSessionsTest, AreVisitedOnceInAVisit) {
  EXPECT_THAT(Visit(10), ElementsAre("1", "2", "3", "4"));
  EXPECT_THAT(Visit(2), ElementsAre("1", "2"));
  EXPECT_THAT(Visit(10), ElementsAre("3", "4", "1", "2"));
}

TEST_F(EndedSessionsTest, WaitForTheNextVisitWhenOneEnds) {
  EXPECT_THAT(Visit(10, "2"), ElementsAre("1", "2"));
  EXPECT_THAT(Visit(10, "1"), ElementsAre("3", "4", "1"));
  EXPECT_THAT(Visit(10), ElementsAre("2", "3", "4", "1"));
}

TEST_F(EndedSessionsTest, MayHaveLeftSinceTheLastVisit) {
  EXPECT_THAT(Visit(3), ElementsAre("1", "2", "3"));
  table_.Erase("3");
  table_.Erase("4");
  EXPECT_THAT(Visit(3), ElementsAre("1", "2"));
  table_.Touch(*table_.Find("1"), At(10));
  EXPECT_THAT(Visit(3), ElementsAre("2"));
  now_ = At(1);
  EXPECT_THAT(Visit(3), IsEmpty());
}

}  // namespace
}  // namespace tvq
