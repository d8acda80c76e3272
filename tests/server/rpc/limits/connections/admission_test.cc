#include "server/rpc/limits/connections/admission.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <utility>

#include "base/network.h"

namespace tvq {
namespace {

using std::chrono::milliseconds;

const Address kWaryPeer{.ip = std::string(4, 'w'), .port = 1};
const Address kOtherPeer{.ip = std::string(4, 'o'), .port = 1};

constexpr auto kLight = Admission::Load::kLight;
constexpr auto kHeavy = Admission::Load::kHeavy;
constexpr auto kRarely = Admission::kRarely;
constexpr milliseconds kAWhile{60'000};

class AdmissionTest : public testing::Test {
 protected:
  // How many of many clients enter at once.
  int Enter(const Address& peer, Admission::Load load, milliseconds later = {}) {
    now_ += later;
    int entered = 0;
    while (entered < 1000 && admission_.Enter(peer, load, now_)) ++entered;
    return entered;
  }

  Admission admission_;
  Admission::Time now_{std::chrono::hours(1)};
};

TEST_F(AdmissionTest, SoManyEnterBetweenTwoLooks) {
  EXPECT_EQ(Enter(kOtherPeer, kHeavy), Admission::kSuspectsBetweenLooks);
  EXPECT_EQ(Enter(kOtherPeer, kLight), Admission::kBetweenLooks - Admission::kSuspectsBetweenLooks);
  EXPECT_EQ(Enter(kOtherPeer, kLight, kAWhile), 0);
  admission_.Looked({});
  EXPECT_EQ(Enter(kOtherPeer, kLight), Admission::kBetweenLooks);
}

TEST_F(AdmissionTest, WhileANetworkIsWaryOneEntersBetweenTwoLooksAndSuspectsRarely) {
  const auto look = [this] { admission_.Looked({.wary = {NetworkOf(kWaryPeer.ip)}}); };
  look();
  EXPECT_EQ(Enter(kOtherPeer, kLight), 1);
  EXPECT_EQ(Enter(kOtherPeer, kLight, kAWhile), 0);
  look();
  EXPECT_EQ(Enter(kOtherPeer, kHeavy), 1);
  look();
  EXPECT_EQ(Enter(kWaryPeer, kLight, kRarely - milliseconds(1)), 0);
  EXPECT_EQ(Enter(kWaryPeer, kLight, milliseconds(1)), 1);
  look();
  EXPECT_EQ(Enter(kOtherPeer, kHeavy), 0);
  EXPECT_EQ(Enter(kOtherPeer, kLight), 1);
  admission_.Looked({});
  EXPECT_EQ(Enter(kWaryPeer, kLight), Admission::kBetweenLooks) << "it is wary no more";
}

TEST_F(AdmissionTest, WhileThereIsACrowdOnlyThoseEnterThatAreNotSuspect) {
  const auto look = [this] {
    admission_.Looked({.crowded = true, .wary = {NetworkOf(kWaryPeer.ip)}});
  };
  look();
  EXPECT_EQ(Enter(kWaryPeer, kLight), 0);
  EXPECT_EQ(Enter(kOtherPeer, kHeavy), 0);
  EXPECT_EQ(Enter(kOtherPeer, kLight), 1);
  look();
  EXPECT_EQ(Enter(kOtherPeer, kLight, kRarely - milliseconds(1)), 0);
  EXPECT_EQ(Enter(kOtherPeer, kLight, milliseconds(1)), 1);
  EXPECT_EQ(Enter(kOtherPeer, kHeavy, kAWhile), 0);
  admission_.Looked({});
  EXPECT_GT(Enter(kOtherPeer, kHeavy), 1) << "there is no crowd any more";
}

TEST_F(AdmissionTest, OfIpv6ANetworkIs56Bits) {
  const std::string network(7, 'n');
  const auto look = [&] { admission_.Looked({.wary = {NetworkOf(network + "1interfac")}}); };
  look();
  EXPECT_EQ(Enter({.ip = network + "2ecafretn"}, kLight), 1);
  look();
  EXPECT_EQ(Enter({.ip = network + "3ecafretn"}, kLight), 0);
}

}  // namespace
}  // namespace tvq
