#include "kernels/ops/attention/kept_keys.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <string>
#include <vector>

#include "tests/kernels/ops/attention/softmax_state.h"
#include "tests/kernels/ops/op_testing.h"

namespace tvq {
namespace {

using ::testing::HasSubstr;

struct KeptSize {
  int64_t tokens, heads, kv_heads, key, window, trained;
};

// Keys of no whole vector and of several; more query heads than a tile has rows; windows that are
// longer than the context, that lie in one page and in two.
constexpr KeptSize kKeptSizes[] = {
    {5, 1, 1, 3, 64, 0}, {330, 4, 2, 10, 64, 128}, {300, 8, 1, 20, 256, 256}};

constexpr DType kKept[] = {DType::kFloat32, DType::kBFloat16};

// What was not written.
constexpr float kNotWritten = 12345;

struct KeptMade {
  std::vector<float> q, k, scores;  // [n, H, 2 K], [n, G, 2 K], [n, H, W]
  bool operator==(const KeptMade&) const = default;
};

// One session's positions.
struct KeptInputs {
  KeptInputs(const KeptSize& given, DType dtype)
      : size(given),
        shape{size.kv_heads, 2 * size.key, 4, dtype},
        q(RandomFloats(size.tokens * size.heads * size.key, 1)),
        q_far(RandomFloats(size.tokens * size.heads * size.key, 2)),
        k(RandomFloats(size.tokens * size.kv_heads * size.key, 3)),
        k_plain(RandomFloats(size.tokens * size.kv_heads * size.key, 4)) {}

  // Rows [first, first + count): of decode where there are `sessions`, else of the prefill of
  // `pages`.
  absl::Status Run(Device& device, int64_t first, int64_t count,
                   const std::vector<KeyValuePages>& sessions, const KeyValuePages& pages,
                   KeptMade* made) const {
    const auto [tokens, heads, kv_heads, key, window, trained] = size;
    const auto rows = [&](const std::vector<float>& all) {
      const int64_t width = std::ssize(all) / size.tokens;
      return std::span(all).subspan(static_cast<size_t>(first * width),
                                    static_cast<size_t>(count * width));
    };
    std::vector<int64_t> at;
    at.reserve(static_cast<size_t>(count));
    for (int64_t i = 0; i < count; ++i) at.push_back(first + i);
    const auto room = [&](int64_t floats) {
      return std::vector<float>(static_cast<size_t>(count * floats), kNotWritten);
    };
    const DeviceArray<KeyValuePages> session(device, sessions);
    const DeviceArray<int64_t> positions(device, at);
    const DeviceArray<float> turned_q(device, rows(q)), far(device, rows(q_far)),
        turned_k(device, rows(k)), plain(device, rows(k_plain));
    const DeviceArray<float> page_q(device, room(heads * 2 * key)),
        page_k(device, room(kv_heads * 2 * key)), scores(device, room(heads * window));
    KeptKeysArgs args;
    args.shape = shape;
    args.layer_offset = shape.LayerBytes();
    if (!sessions.empty()) args.sessions = {session.data(), {count}};
    args.pages = pages;
    args.positions = {positions.data(), {count}};
    args.longest_trained = trained;
    args.q = {turned_q.data(), {count, heads, key}};
    args.q_far = {far.data(), {count, heads, key}};
    args.k = {turned_k.data(), {count, kv_heads, key}};
    args.k_plain = {plain.data(), {count, kv_heads, key}};
    args.page_q = {page_q.data(), {count, heads, 2 * key}};
    args.page_k = {page_k.data(), {count, kv_heads, 2 * key}};
    args.position_scores = {scores.data(), {count, heads, window}};
    const absl::Status status = KeptKeys(device, args);
    *made = {page_q.Read(), page_k.Read(), scores.Read()};
    return status;
  }

  KeptMade Prefill(Device& device, const OwnedPages& pages, int64_t first, int64_t count) const {
    KeptMade made;
    const absl::Status status = Run(device, first, count, {}, pages.View(), &made);
    EXPECT_TRUE(status.ok()) << status;
    return made;
  }
  KeptMade Decode(Device& device, const OwnedPages& pages, int64_t first, int64_t count) const {
    KeptMade made;
    const std::vector<KeyValuePages> sessions(static_cast<size_t>(count), pages.View());
    const absl::Status status = Run(device, first, count, sessions, {}, &made);
    EXPECT_TRUE(status.ok()) << status;
    return made;
  }

  double Stored(float x) const {
    return shape.dtype == DType::kFloat32 ? x : ToFloat(ToBFloat16(x));
  }

  // The header's formulas for position t, row n of what was made.
  void ExpectRow(int64_t t, const KeptMade& made, int64_t n) const {
    const auto [tokens, heads, kv_heads, key, window, trained] = size;
    const bool far = t >= trained;
    for (int64_t g = 0; g < kv_heads; ++g) {
      for (int64_t i = 0; i < key; ++i) {
        const int64_t from = (t * kv_heads + g) * key + i, to = (n * kv_heads + g) * 2 * key + i;
        ASSERT_EQ(At(made.k, to), At(k, from));
        ASSERT_EQ(At(made.k, to + key), At(k_plain, from));
      }
    }
    for (int64_t h = 0; h < heads; ++h) {
      const int64_t from = (t * heads + h) * key, to = (n * heads + h) * 2 * key;
      for (int64_t i = 0; i < key; ++i) {
        ASSERT_EQ(At(made.q, to + i), far ? 0 : At(q, from + i));
        ASSERT_EQ(At(made.q, to + key + i), far ? At(q_far, from + i) : 0);
      }
      for (int64_t d = 0; d < std::min(window, t + 1); ++d) {
        double score = 0, size_of_terms = 0;
        for (int64_t i = 0; far && i < key; ++i) {
          const int64_t at = ((t - d) * kv_heads + h / (heads / kv_heads)) * key + i;
          const double near_term = At(q, from + i) * Stored(At(k, at));
          const double far_term = At(q_far, from + i) * Stored(At(k_plain, at));
          score += near_term - far_term;
          size_of_terms += std::abs(near_term) + std::abs(far_term);
        }
        // 2 K products are rounded when they are added, by at most half a unit of what they reach.
        const double tolerance = size_of_terms * static_cast<double>(2 * key) * 0x1p-24;
        ASSERT_NEAR(At(made.scores, (n * heads + h) * window + d), score, tolerance)
            << "position " << t << " head " << h << " distance " << d;
      }
    }
  }
  static float At(const std::vector<float>& all, int64_t i) { return all[static_cast<size_t>(i)]; }

  // Row n of what was made of several. Of distances that there are not, nothing is said.
  KeptMade Row(const KeptMade& made, int64_t t, int64_t n) const {
    const auto part = [&](const std::vector<float>& all, int64_t width) {
      return std::vector<float>(all.begin() + n * width, all.begin() + (n + 1) * width);
    };
    KeptMade row{part(made.q, size.heads * 2 * size.key),
                 part(made.k, size.kv_heads * 2 * size.key),
                 part(made.scores, size.heads * size.window)};
    for (int64_t h = 0; h < size.heads; ++h) {
      const auto first = row.scores.begin() + h * size.window;
      std::fill(first + std::min(size.window, t + 1), first + size.window, kNotWritten);
    }
    return row;
  }

  const KeptSize size;
  const KeyValueShape shape;
  const std::vector<float> q, q_far, k, k_plain;
};

class KeptKeysTest : public testing::TestWithParam<DeviceCase> {
 protected:
  void SetUp() override { TVQ_SKIP_WITHOUT_DEVICE(GetParam()); }
};

TEST_P(KeptKeysTest, PrefillIsTheFormulaHoweverItIsCut) {
  const auto device = MakeTestDevice(GetParam());
  for (const KeptSize& size : kKeptSizes) {
    for (const DType dtype : kKept) {
      const KeptInputs in(size, dtype);
      const OwnedPages whole(*device, in.shape, size.tokens), cut(*device, in.shape, size.tokens);
      const KeptMade expected = in.Prefill(*device, whole, 0, size.tokens);
      for (int64_t t = 0; t < size.tokens; ++t) in.ExpectRow(t, expected, t);
      for (int64_t first = 0, count = 0; first < size.tokens; first += count) {
        count = std::min<int64_t>(first % 2 == 0 ? 37 : 128, size.tokens - first);
        const KeptMade rows = in.Prefill(*device, cut, first, count);
        for (int64_t n = 0; n < count; ++n) {
          ASSERT_TRUE(in.Row(rows, first + n, n) == in.Row(expected, first + n, first + n));
        }
      }
      EXPECT_TRUE(cut == whole);
    }
  }
}

TEST_P(KeptKeysTest, DecodeHasTheBitsOfPrefill) {
  const auto device = MakeTestDevice(GetParam());
  for (const KeptSize& size : kKeptSizes) {
    const KeptInputs in(size, DType::kBFloat16);
    const OwnedPages whole(*device, in.shape, size.tokens), stepped(*device, in.shape, size.tokens);
    const KeptMade expected = in.Prefill(*device, whole, 0, size.tokens);
    const int64_t before = std::max<int64_t>(0, size.tokens - 80);
    if (before > 0) in.Prefill(*device, stepped, 0, before);
    // Where the host reads the device's memory, several rows of a session at a time, too.
    for (int64_t t = before, count = 0; t < size.tokens; t += count) {
      count = device->host_memory() ? std::min<int64_t>(1 + t % 3, size.tokens - t) : 1;
      const KeptMade rows = in.Decode(*device, stepped, t, count);
      for (int64_t n = 0; n < count; ++n) {
        ASSERT_TRUE(in.Row(rows, t + n, n) == in.Row(expected, t + n, t + n)) << t + n;
      }
    }
    EXPECT_TRUE(stepped == whole);
  }
}

TEST_P(KeptKeysTest, WritesNothingOfARowWithoutPages) {
  const auto device = MakeTestDevice(GetParam());
  const KeptInputs in(kKeptSizes[1], DType::kFloat32);
  const OwnedPages pages(*device, in.shape, 256);
  const KeptMade expected = in.Prefill(*device, pages, 0, 202);
  KeptMade made;
  ASSERT_TRUE(in.Run(*device, 200, 2, {KeyValuePages{}, pages.View()}, {}, &made).ok());
  EXPECT_TRUE(in.Row(made, 201, 1) == in.Row(expected, 201, 201));
  const KeptMade first = in.Row(made, 200, 0);
  for (const std::vector<float>& written : {first.q, first.k, first.scores}) {
    EXPECT_EQ(std::ranges::count(written, kNotWritten), std::ssize(written));
  }
}

TEST_P(KeptKeysTest, NamesWhatIsWrong) {
  const auto device = MakeTestDevice(GetParam());
  const KeptInputs in(kKeptSizes[1], DType::kFloat32);
  const OwnedPages pages(*device, in.shape, 256);
  const auto error = [&](const auto& change) {
    const std::vector<float> zeros(1000);
    const std::vector<int64_t> positions{3};
    const DeviceArray<float> given(*device, zeros), out(*device, zeros);
    const DeviceArray<int64_t> position(*device, positions);
    KeptKeysArgs args;
    args.shape = in.shape;
    args.pages = pages.View();
    args.positions = {position.data(), {1}};
    args.q = args.q_far = {given.data(), {1, 4, 10}};
    args.k = args.k_plain = {given.data(), {1, 2, 10}};
    args.page_q = {out.data(), {1, 4, 20}};
    args.page_k = {out.data(), {1, 2, 20}};
    args.position_scores = {out.data(), {1, 4, 64}};
    change(args);
    return std::string(KeptKeys(*device, args).message());
  };
  EXPECT_EQ(error([](auto&) {}), "");
  EXPECT_THAT(error([](auto& args) { args.shape.key = 10; }),
              HasSubstr("keys of 10 numbers, expected 20, twice as many as q has"));
  EXPECT_THAT(error([](auto& args) { args.k_plain.shape = {1, 2, 9}; }),
              HasSubstr("k_plain is [1,2,9], expected [1,2,10]"));
  EXPECT_THAT(error([](auto& args) { args.position_scores.shape = {1, 3, 64}; }),
              HasSubstr("position_scores is [1,3,64], expected [1,4,64]"));
  EXPECT_THAT(error([](auto& args) { args.layer_offset = 3; }), HasSubstr("layer_offset is 3"));
  if (!device->host_memory()) return;
  EXPECT_THAT(error([](auto& args) { args.pages.count = 0; }),
              HasSubstr("position 3 lies beyond the session's 0 pages"));
}

INSTANTIATE_TEST_SUITE_P(Devices, KeptKeysTest, testing::ValuesIn(AllDevices()), kCaseName);

}  // namespace
}  // namespace tvq
