#include "server/engine/request/stop_matcher.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace tvq {
namespace {

// What has been shown after each piece, and the stop, by the definition.
struct Naive {
  std::vector<std::string> stops;
  bool include;

  // The stop that ends at byte `end`; of several the longest.
  std::optional<std::string> EndingAt(const std::string& text, size_t end) const {
    std::optional<std::string> best;
    for (const std::string& s : stops) {
      if (s.size() <= end && text.compare(end - s.size(), s.size(), s) == 0 &&
          (!best || s.size() > best->size())) {
        best = s;
      }
    }
    return best;
  }

  // Shown of `text`, of which the first `unarmed` bytes cannot complete a stop.
  StreamPiece Shown(const std::string& text, size_t unarmed) const {
    for (size_t end = unarmed + 1; end <= text.size(); ++end) {
      if (const auto stop = EndingAt(text, end)) {
        return {text.substr(0, include ? end : end - stop->size()), stop};
      }
    }
    size_t hold = 0;
    for (const std::string& s : stops) {
      for (size_t m = 1; m < s.size() && m <= text.size(); ++m) {
        if (text.compare(text.size() - m, m, s, 0, m) == 0) hold = std::max(hold, m);
      }
    }
    return {text.substr(0, text.size() - hold), std::nullopt};
  }
};

StopMatcher Make(std::vector<std::string> stops, bool include = false) {
  return StopMatcher(std::make_shared<const StopStrings>(std::move(stops)), include);
}

TEST(StopMatcherTest, WithoutStopsEverythingIsShownAtOnce) {
  StopMatcher m = Make({});
  EXPECT_EQ(m.Push("anything", true).text, "anything");
  EXPECT_EQ(m.Finish(), "");
}

TEST(StopMatcherTest, HoldsBackWhatMayBecomeAStop) {
  StopMatcher m = Make({"END"});
  EXPECT_EQ(m.Push("the E", true).text, "the ");
  EXPECT_EQ(m.Push("N", true).text, "");
  EXPECT_EQ(m.Push("E", true).text, "EN");  // "ENE": only the last E may begin a stop
  EXPECT_EQ(m.Push("x", true).text, "Ex");
  EXPECT_EQ(m.Push("EN", true).text, "");
  EXPECT_EQ(m.Finish(), "EN");
}

TEST(StopMatcherTest, StopAcrossPieces) {
  StopMatcher m = Make({"\n\n"});
  EXPECT_EQ(m.Push("line\n", true).text, "line");
  const StreamPiece end = m.Push("\nnext", true);
  EXPECT_EQ(end.text, "");
  EXPECT_EQ(end.stop, "\n\n");
}

TEST(StopMatcherTest, TheFirstCompleteStopWinsAndOfThoseTheLongest) {
  EXPECT_EQ(Make({"abc", "b"}).Push("xabc", true).text, "xa");
  StopMatcher both = Make({"c", "abc"});
  EXPECT_EQ(both.Push("xab", true).text, "x");
  const StreamPiece end = both.Push("c", true);
  EXPECT_EQ(end.text, "");
  EXPECT_EQ(end.stop, "abc");
}

TEST(StopMatcherTest, IncludedStopIsShownAndNothingAfterIt) {
  EXPECT_EQ(Make({"."}, true).Push("One. Two", true).text, "One.");
}

TEST(StopMatcherTest, UnarmedTextCompletesNoStopButMayBeginOne) {
  StopMatcher m = Make({"aa"});
  EXPECT_EQ(m.Push("aa", false).text, "a");
  const StreamPiece end = m.Push("a", true);
  EXPECT_EQ(end.text, "");
  EXPECT_EQ(end.stop, "aa");
}

TEST(StopMatcherTest, AgreesWithTheDefinitionOnRandomText) {
  std::mt19937 random(1);
  const auto below = [&](size_t n) { return static_cast<size_t>(random() % n); };
  // Few characters of 1 to 4 bytes, some of which share bytes, so that overlaps are frequent.
  const std::vector<std::string> alphabet = {"a", "b", "é", "è", "€", "₭", "😀", "😁"};
  const auto word = [&](size_t max) {
    std::string s;
    const size_t letters = 2 + below(3);
    for (size_t i = 0, n = 1 + below(max); i < n; ++i) s += alphabet[below(letters) * 2 % 8];
    return s;
  };
  for (int round = 0; round < 20000; ++round) {
    Naive naive{{}, round % 2 == 1};
    for (size_t i = 0, n = below(4); i < n; ++i) naive.stops.push_back(word(5));
    StopMatcher matcher = Make(naive.stops, naive.include);
    std::string text, shown;
    size_t unarmed = 0;
    const size_t arm_at = below(4);
    bool stopped = false;
    for (size_t piece = 0; piece < 12 && !stopped; ++piece) {
      const std::string more = word(4);
      text += more;
      if (piece < arm_at) unarmed = text.size();
      const StreamPiece got = matcher.Push(more, piece >= arm_at);
      shown += got.text;
      const StreamPiece want = naive.Shown(text, unarmed);
      ASSERT_EQ(shown, want.text) << text;
      ASSERT_EQ(got.stop, want.stop) << text;
      ASSERT_TRUE(got.text.empty() || (static_cast<unsigned char>(got.text[0]) & 0xC0) != 0x80);
      stopped = got.stop.has_value();
    }
    if (!stopped) {
      ASSERT_EQ(shown + matcher.Finish(), text);
    }
  }
}

}  // namespace
}  // namespace tvq
