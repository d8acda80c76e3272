#include "server/rpc/limits/connections/key_holders.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace tvq {
namespace {

using testing::ElementsAre;

constexpr auto kUnknown = Standing::kUnknown;
constexpr auto kKeyHolder = Standing::kKeyHolder;

class KeyHoldersTest : public testing::Test {
 protected:
  std::vector<Standing> Look(const std::vector<std::string>& names) {
    std::vector<Connection> open;
    std::vector<Standing> standing;
    for (const std::string& name : names) {
      open.push_back({.name = name});
      standing.push_back(holders_.StandingOf(open.back()));
    }
    holders_.Forget(open);
    return standing;
  }

  KeyHolders holders_;
};

TEST_F(KeyHoldersTest, TellsConnectionsThatCalledWithAKey) {
  holders_.Add("ipv4:192.0.2.1:1");
  holders_.Add("ipv4:192.0.2.1:1");
  EXPECT_THAT(Look({"ipv4:192.0.2.1:2", "ipv4:192.0.2.1:1", ""}),
              ElementsAre(kUnknown, kKeyHolder, kUnknown));
}

TEST_F(KeyHoldersTest, ForgetsWhatTwoLooksDidNotShow) {
  holders_.Add("a");
  Look({});
  EXPECT_THAT(Look({"a"}), ElementsAre(kKeyHolder)) << "it called after the first was read";
  Look({});
  Look({});
  EXPECT_THAT(Look({"a"}), ElementsAre(kUnknown)) << "another client's, at the same port";
}

TEST_F(KeyHoldersTest, KeepsWhatHasCalledSinceItWasMissed) {
  holders_.Add("a");
  Look({});
  holders_.Add("a");
  Look({});
  EXPECT_THAT(Look({"a"}), ElementsAre(kKeyHolder));
}

TEST_F(KeyHoldersTest, ForgetsAll) {
  holders_.Add("a");
  holders_.ForgetAll();
  EXPECT_THAT(Look({"a"}), ElementsAre(kUnknown));
}

}  // namespace
}  // namespace tvq
