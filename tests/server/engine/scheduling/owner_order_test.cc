#include "server/engine/scheduling/owner_order.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <vector>

namespace tvq {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// The next turns, of cost 1, of which each ends the request's turns in this step.
std::vector<uint64_t> StepOf(OwnerOrder& order, size_t count = 1000) {
  std::vector<uint64_t> ids;
  order.BeginStep();
  while (ids.size() < count && order.Next()) {
    ids.push_back(*order.Next());
    order.Take(1, Then::kRest);
  }
  return ids;
}

// The next turns, of so much each, in one step.
std::vector<uint64_t> TurnsOf(OwnerOrder& order, size_t count, int64_t cost) {
  std::vector<uint64_t> ids;
  while (ids.size() < count) {
    ids.push_back(*order.Next());
    order.Take(cost, Then::kAgain);
  }
  return ids;
}

class OwnerOrderTest : public testing::TestWithParam<std::unique_ptr<OwnerOrder> (*)()> {};

TEST_P(OwnerOrderTest, GivesEachATurnAStepWhateverItsPriority) {
  const auto order = GetParam()();
  EXPECT_TRUE(order->empty());
  EXPECT_THAT(StepOf(*order), IsEmpty());
  for (uint64_t id = 1; id <= 5; ++id) {
    order->Add({.id = id, .priority = static_cast<int32_t>(id % 3), .left = 100});
  }
  EXPECT_FALSE(order->empty());
  EXPECT_EQ(order->Next(), std::nullopt) << "from the next step on";
  for (int step = 0; step < 3; ++step) {
    EXPECT_THAT(StepOf(*order), testing::UnorderedElementsAre(1, 2, 3, 4, 5));
  }
  StepOf(*order, 2);
  for (const uint64_t id : {5, 1, 3, 2}) order->Remove(id);
  EXPECT_THAT(StepOf(*order), ElementsAre(4));
  order->Remove(4);
  EXPECT_TRUE(order->empty());
}

TEST_P(OwnerOrderTest, EveryOtherTurnGoesByPriority) {
  const auto order = GetParam()();
  order->Add({.id = 1, .priority = 5, .left = 100});
  order->Add({.id = 2, .priority = 5, .left = 100});
  order->Add({.id = 3, .priority = -1, .left = 100});
  order->Add({.id = 4, .priority = -1, .left = 100});
  EXPECT_THAT(StepOf(*order, 4), ElementsAre(3, 1, 4, 2));
}

INSTANTIATE_TEST_SUITE_P(Orders, OwnerOrderTest, testing::Values(NewRowOrder, NewPromptOrder));

TEST(RowOrderTest, WhoWaitedLongestIsNext) {
  const auto order = NewRowOrder();
  for (uint64_t id = 1; id <= 4; ++id) order->Add({.id = id, .priority = id <= 2 ? -1 : 0});
  order->BeginStep();
  EXPECT_THAT(TurnsOf(*order, 8, 1), ElementsAre(1, 2, 1, 3, 2, 4, 1, 3));
}

TEST(PromptOrderTest, TheOneWithTheLeastLeftIsNextAndEveryFourthTimeTheOldest) {
  const auto order = NewPromptOrder();
  order->Add({.id = 1, .left = 1000});
  order->Add({.id = 2, .left = 30});
  order->Add({.id = 3, .left = 20});
  order->BeginStep();
  EXPECT_THAT(TurnsOf(*order, 4, 10), ElementsAre(3, 3, 3, 1));
  order->Remove(3);
  EXPECT_THAT(TurnsOf(*order, 4, 10), ElementsAre(2, 2, 2, 1));
}

TEST(PromptOrderTest, OfFourTurnsTwoGoByPriority) {
  const auto order = NewPromptOrder();
  order->Add({.id = 1, .priority = 3, .left = 3000});
  order->Add({.id = 2, .priority = -1, .left = 2000});
  order->Add({.id = 3, .priority = 3, .left = 1000});
  order->BeginStep();
  EXPECT_THAT(TurnsOf(*order, 8, 1), ElementsAre(2, 3, 2, 1, 2, 3, 2, 1));
}

}  // namespace
}  // namespace tvq
