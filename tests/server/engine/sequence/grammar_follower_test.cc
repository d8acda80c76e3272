#include "server/engine/sequence/grammar_follower.h"

#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/refusal.h"
#include "tests/server/engine/fake_model.h"

namespace tvq {
namespace {

constexpr SteadyTime kNow{};
constexpr SteadyTime kAsLongAsItTakes = SteadyTime::max();

class GrammarFollowerTest : public ::testing::Test {
 protected:
  std::shared_ptr<const Grammar> Regex(const char* regex) {
    return *vocabulary_.Read(GrammarLanguage::kRegex, regex);
  }
  // The letters that may follow.
  static std::string Letters(std::span<const uint32_t> mask) {
    std::string letters;
    for (char c = 'a'; c <= 'z'; ++c) {
      if (MaskHas(mask, ByteId(c))) letters += c;
    }
    return letters;
  }

  FakeTokenizer tokenizer_;
  GrammarVocabulary vocabulary_ = *GrammarVocabulary::Make(tokenizer_, std::vector{kEos});
  std::shared_ptr<GrammarThreads> threads_ =
      std::make_shared<GrammarThreads>(GrammarThreads::Options{.threads = 1});
};

TEST_F(GrammarFollowerTest, KnowsWhatFollowsEachToken) {
  GrammarFollower follower(Regex("a(b|c)"), "owner", threads_);
  EXPECT_EQ(Letters(**follower.Await(kAsLongAsItTakes)), "a");
  follower.Accept(ByteId('a'));
  EXPECT_EQ(Letters(**follower.Await(kAsLongAsItTakes)), "bc");
  follower.Accept(ByteId('c'));
  EXPECT_EQ(Letters(**follower.Await(kAsLongAsItTakes)), "");
}

TEST_F(GrammarFollowerTest, SaysThatItIsNotKnownYet) {
  std::promise<void> go;
  threads_->Schedule([wait = go.get_future()] { wait.wait(); });
  GrammarFollower follower(Regex("ab"), "owner", threads_);
  EXPECT_FALSE((*follower.Await(kNow)).has_value());
  go.set_value();
  EXPECT_EQ(Letters(**follower.Await(kAsLongAsItTakes)), "a");
  EXPECT_EQ(Letters(**follower.Await(kNow)), "a");
}

TEST_F(GrammarFollowerTest, AnErrorIsTold) {
  GrammarFollower follower(Regex("ab"), "owner", threads_);
  EXPECT_TRUE(follower.Await(kAsLongAsItTakes).ok());
  follower.Accept(ByteId('x'));
  const absl::Status status = follower.Await(kAsLongAsItTakes).status();
  EXPECT_EQ(RefusalOf(status).reason, Reason::kValueInvalid) << status;
}

TEST_F(GrammarFollowerTest, MayEndWhileItsWorkWaits) {
  std::promise<void> go;
  threads_->Schedule([wait = go.get_future()] { wait.wait(); });
  {
    const GrammarFollower follower(Regex("ab"), "owner", threads_);
  }
  go.set_value();
  threads_->Stop();
}

}  // namespace
}  // namespace tvq
