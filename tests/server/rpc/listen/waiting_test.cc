#include "server/rpc/listen/waiting.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <deque>
#include <string>

#include "base/descriptors.h"

namespace tvq {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

const std::string kAna = "192.0.2.1";
const std::string kBob = "192.0.2.2";

class WaitingTest : public testing::Test {
 protected:
  // Returns the descriptor of a new client that has sent so much.
  int Add(const std::string& network, size_t bytes) {
    std::array<int, 2> ends{};
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()), 0);
    for (const int end : ends) descriptors_.emplace_back(end);
    const std::string sent(bytes, 'x');
    EXPECT_EQ(send(ends[1], sent.data(), bytes, 0), bytes);
    waiting_.Add(ends[0], network);
    return ends[0];
  }

  int AddLight(const std::string& network) { return Add(network, 100); }
  int AddHeavy(const std::string& network) { return Add(network, 10'000); }

  // Those that may enter when the next may.
  std::vector<int> Enter() { return waiting_.Enter(now_ += Admission::kRarely); }

  Admission admission_;
  Waiting waiting_{&admission_};
  Waiting::Time now_{std::chrono::hours(1)};
  std::deque<Descriptor> descriptors_;
};

TEST_F(WaitingTest, NetworksTakeTurnsOfWhichTheLongestEnter) {
  admission_.Looked({.crowded = true});
  const int first = AddLight(kAna);
  const int second = AddLight(kAna);
  const int third = AddLight(kAna);
  const int other = AddLight(kBob);
  EXPECT_THAT(Enter(), ElementsAre(first));
  EXPECT_THAT(Enter(), ElementsAre(other));
  EXPECT_THAT(Enter(), ElementsAre(second));
  const int newcomer = AddLight(kBob);
  AddLight(kAna);
  EXPECT_THAT(Enter(), ElementsAre(third)) << "its turn is before that of a network that comes";
  EXPECT_THAT(Enter(), ElementsAre(newcomer));
}

TEST_F(WaitingTest, ThoseThatHaveSentLittleEnterFirst) {
  admission_.Looked({.wary = {"192.0.2.3"}});
  const int heavy = AddHeavy(kAna);
  const int light = AddLight(kAna);
  const int other = AddLight(kBob);
  EXPECT_THAT(Enter(), ElementsAre(light));
  EXPECT_THAT(Enter(), ElementsAre(other));
  EXPECT_THAT(Enter(), ElementsAre(heavy));
  EXPECT_TRUE(waiting_.empty());
}

TEST_F(WaitingTest, PassesOverNetworksThatMayNotEnter) {
  admission_.Looked({.crowded = true, .wary = {kAna}});
  const int suspect = AddLight(kAna);
  AddHeavy(kBob);
  EXPECT_THAT(Enter(), IsEmpty());
  const int light = AddLight(kBob);
  EXPECT_THAT(Enter(), ElementsAre(light));
  admission_.Looked({.wary = {kAna}});
  EXPECT_THAT(Enter(), ElementsAre(suspect));
}

TEST_F(WaitingTest, AllEnterAtOnceWhileAllIsCalm) {
  const int heavy = AddHeavy(kAna);
  const int first = AddLight(kAna);
  const int other = AddLight(kBob);
  const int second = AddLight(kAna);
  EXPECT_THAT(Enter(), ElementsAre(first, other, second, heavy));
}

TEST_F(WaitingTest, AsksForThoseThatMayNotEnterOncePerPeriod) {
  admission_.Looked({.crowded = true, .wary = {kAna}});
  const int suspect = AddLight(kAna);
  EXPECT_THAT(Enter(), IsEmpty());
  EXPECT_EQ(waiting_.next(), now_ + Waiting::kPeriod);
  admission_.Looked({});
  EXPECT_THAT(waiting_.Enter(waiting_.next() - Waiting::Time::duration(1)), IsEmpty());
  EXPECT_THAT(waiting_.Enter(waiting_.next()), ElementsAre(suspect));
}

TEST_F(WaitingTest, WhoComesAloneEntersAtOnce) {
  for (int i = 0; i < 3; ++i) {
    const int client = AddLight(kAna);
    EXPECT_THAT(waiting_.Enter(now_), ElementsAre(client));
  }
}

TEST_F(WaitingTest, WhoIsRemovedDoesNotEnter) {
  const int gone = AddLight(kAna);
  const int other = AddLight(kBob);
  waiting_.Remove(gone);
  EXPECT_THAT(Enter(), ElementsAre(other));
}

}  // namespace
}  // namespace tvq
