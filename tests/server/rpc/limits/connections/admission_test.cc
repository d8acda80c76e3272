#include "server/rpc/limits/connections/admission.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>

namespace tvq {
namespace {

using std::chrono::milliseconds;

const std::string kWary = "192.0.2.1";
const std::string kOther = "192.0.2.2";

constexpr auto kLight = Admission::Load::kLight;
constexpr auto kHeavy = Admission::Load::kHeavy;
constexpr auto kOften = Admission::kOften;
constexpr auto kRarely = Admission::kRarely;
constexpr milliseconds kAWhile{60'000};

class AdmissionTest : public testing::Test {
 protected:
  // How many of many clients enter at once.
  int Enter(const std::string& network, Admission::Load load, milliseconds later = {}) {
    now_ += later;
    int entered = 0;
    while (entered < 1000 && admission_.Enter(network, load, now_)) ++entered;
    return entered;
  }

  Admission admission_;
  Admission::Time now_{std::chrono::hours(1)};
};

TEST_F(AdmissionTest, SoManyEnterBetweenTwoLooks) {
  EXPECT_EQ(Enter(kOther, kHeavy), Admission::kSuspectsBetweenLooks);
  EXPECT_EQ(Enter(kOther, kLight), Admission::kBetweenLooks - Admission::kSuspectsBetweenLooks);
  EXPECT_EQ(Enter(kOther, kLight, kAWhile), 0);
  admission_.Looked({});
  EXPECT_EQ(Enter(kOther, kLight), Admission::kBetweenLooks);
}

TEST_F(AdmissionTest, WhileANetworkIsWaryClientsEnterOneByOneAndSuspectsRarely) {
  admission_.Looked({.wary = {kWary}});
  EXPECT_EQ(Enter(kOther, kLight), 1);
  EXPECT_EQ(Enter(kOther, kLight, kOften - milliseconds(1)), 0);
  EXPECT_EQ(Enter(kOther, kHeavy, milliseconds(1)), 1);
  EXPECT_EQ(Enter(kWary, kLight, kRarely - milliseconds(1)), 0);
  EXPECT_EQ(Enter(kWary, kLight, milliseconds(1)), 1);
  EXPECT_EQ(Enter(kOther, kHeavy, kOften), 0);
  EXPECT_EQ(Enter(kOther, kLight), 1);
  admission_.Looked({});
  EXPECT_EQ(Enter(kWary, kLight), Admission::kBetweenLooks) << "it is wary no more";
}

TEST_F(AdmissionTest, WhileANetworkIsWaryOthersWaitForNoLookUnlessManyHaveEntered) {
  const auto look = [this] { admission_.Looked({.wary = {kWary}}); };
  look();
  for (int i = 0; i < Admission::kBetweenLooks; ++i) EXPECT_EQ(Enter(kOther, kLight, kOften), 1);
  EXPECT_EQ(Enter(kOther, kLight, kAWhile), 0);
  look();
  EXPECT_EQ(Enter(kOther, kLight), 1);
}

TEST_F(AdmissionTest, IsOpenWhileOneMayEnterThatIsNotSuspect) {
  admission_.Looked({.wary = {kWary}});
  EXPECT_TRUE(admission_.IsOpen(now_));
  EXPECT_EQ(Enter(kOther, kLight), 1);
  EXPECT_FALSE(admission_.IsOpen(now_));
  EXPECT_TRUE(admission_.IsOpen(now_ + kOften));
}

TEST_F(AdmissionTest, WhileThereIsACrowdOnlyThoseEnterThatAreNotSuspect) {
  const auto look = [this] { admission_.Looked({.crowded = true, .wary = {kWary}}); };
  look();
  EXPECT_EQ(Enter(kWary, kLight), 0);
  EXPECT_EQ(Enter(kOther, kHeavy), 0);
  EXPECT_EQ(Enter(kOther, kLight), 1);
  look();
  EXPECT_EQ(Enter(kOther, kLight, kRarely - milliseconds(1)), 0);
  EXPECT_EQ(Enter(kOther, kLight, milliseconds(1)), 1);
  EXPECT_EQ(Enter(kOther, kHeavy, kAWhile), 0);
  admission_.Looked({});
  EXPECT_GT(Enter(kOther, kHeavy), 1) << "there is no crowd any more";
}

}  // namespace
}  // namespace tvq
