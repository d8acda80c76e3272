#include "server/sessions/store/content.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "server/sessions/placement/tiers.h"
#include "tests/server/sessions/store_harness.h"

namespace tvq {
namespace {

using testing::ElementsAre;
using testing::UnorderedElementsAre;

class ChangeOfHoldersTest : public testing::Test {
 protected:
  ~ChangeOfHoldersTest() override { tiers_->Stop(); }

  std::shared_ptr<Checkpoint> NewCheckpoint() {
    auto next = h_.Compute(std::nullopt, "text");
    EXPECT_TRUE(next.ok()) << next.status();
    return tiers_->Add(0, *std::move(next));
  }

  static SessionContent Content(int64_t version, std::shared_ptr<Checkpoint> present) {
    SessionContent content;
    content.record.id = "s";
    content.record.version = version;
    content.present.checkpoint = std::move(present);
    return content;
  }
  static void Mark(SessionContent& content, int64_t version, std::shared_ptr<Checkpoint> at) {
    KeptMark mark{.record = {.name = std::to_string(version), .version = version}};
    mark.kept.checkpoint = std::move(at);
    content.marks.push_back(std::move(mark));
  }

  StoreHarness h_;
  const std::shared_ptr<Tiers> tiers_ =
      Tiers::Create({.engine = h_.engine, .host_bytes = 1'000'000});
};

TEST_F(ChangeOfHoldersTest, IsWhatOneHasAndTheOtherHasNot) {
  const auto a = NewCheckpoint(), b = NewCheckpoint(), c = NewCheckpoint();
  SessionContent before = Content(5, b);
  Mark(before, 2, a);
  Mark(before, 3, a);
  SessionContent after = Content(6, c);
  Mark(after, 5, b);
  Mark(after, 2, a);
  HolderChange change = ChangeOfHolders(before, after);
  EXPECT_THAT(change.after,
              UnorderedElementsAre(Holder{c, {"s", 6}}, Holder{b, {"s", 5}}, Holder{a, {"s", 2}}));
  EXPECT_THAT(change.added, ElementsAre(Holder{c, {"s", 6}}));
  EXPECT_THAT(change.dropped, ElementsAre(Holder{a, {"s", 3}}));
  // The same state under another version is held anew.
  change = ChangeOfHolders(before, Content(6, b));
  EXPECT_THAT(change.added, ElementsAre(Holder{b, {"s", 6}}));
  EXPECT_THAT(change.dropped,
              UnorderedElementsAre(Holder{b, {"s", 5}}, Holder{a, {"s", 2}}, Holder{a, {"s", 3}}));
}

// To compare each with each would take minutes.
TEST_F(ChangeOfHoldersTest, OfManyMarksTakesAFewStepsEach) {
  constexpr int64_t kMarks = 300'000;
  const auto at = NewCheckpoint();
  SessionContent before = Content(kMarks + 1, at);
  for (int64_t version = 1; version <= kMarks; ++version) Mark(before, version, at);
  SessionContent after = before;
  ++after.record.version;
  const HolderChange change = ChangeOfHolders(before, after);
  EXPECT_EQ(std::ssize(change.after), kMarks + 1);
  EXPECT_THAT(change.added, ElementsAre(Holder{at, {"s", kMarks + 2}}));
  EXPECT_THAT(change.dropped, ElementsAre(Holder{at, {"s", kMarks + 1}}));
}

}  // namespace
}  // namespace tvq
