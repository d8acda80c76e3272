#include "server/sessions/store/entry.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <set>
#include <vector>

namespace tvq {
namespace {

using S = EntryState;
constexpr S kStates[] = {S::kMaking, S::kIdle, S::kLeased, S::kForeign, S::kTaking, S::kGone};

// From a state that an entry can begin in, over moves that there are, each of them at least once.
TEST(SessionEntryTest, MakesEveryMove) {
  const std::vector<std::vector<S>> lives = {
      {S::kMaking, S::kIdle, S::kLeased, S::kIdle, S::kGone},
      {S::kMaking, S::kGone},
      {S::kIdle, S::kLeased, S::kGone},
      {S::kForeign, S::kTaking, S::kForeign, S::kGone},
      {S::kForeign, S::kTaking, S::kGone},
  };
  std::set<EntryMove> made;
  for (const std::vector<S>& life : lives) {
    SessionEntry entry(life.front());
    for (size_t i = 1; i < life.size(); ++i) {
      made.insert({entry.state(), life[i]});
      entry.Move(life[i]);
      EXPECT_EQ(entry.state(), life[i]);
    }
    EXPECT_TRUE(entry.gone());
  }
  EXPECT_EQ(made, std::set<EntryMove>(kEntryMoves.begin(), kEntryMoves.end()));
}

TEST(SessionEntryDeathTest, MakesNoOtherMove) {
  for (const S from : kStates) {
    for (const S to : kStates) {
      if (MayMove(from, to)) continue;
      SessionEntry entry(from);
      EXPECT_DEATH(entry.Move(to), "") << static_cast<int>(from) << " to " << static_cast<int>(to);
    }
  }
}

TEST(SessionEntryTest, SaysWhoMayChangeIt) {
  struct Case {
    S state;
    bool leased, foreign, gone;
  };
  for (const Case& c : {Case{S::kMaking, true, false, false}, Case{S::kIdle, false, false, false},
                        Case{S::kLeased, true, false, false}, Case{S::kForeign, false, true, false},
                        Case{S::kTaking, true, true, false}, Case{S::kGone, false, false, true}}) {
    const SessionEntry entry(c.state);
    EXPECT_EQ(entry.leased(), c.leased) << static_cast<int>(c.state);
    EXPECT_EQ(entry.foreign(), c.foreign) << static_cast<int>(c.state);
    EXPECT_EQ(entry.gone(), c.gone) << static_cast<int>(c.state);
  }
}

}  // namespace
}  // namespace tvq
