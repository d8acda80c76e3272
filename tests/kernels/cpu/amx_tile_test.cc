// Tiles by AMX's stand-in, and by the instructions where the processor has them, one at a time,
// from rows and panels that end where their memory does.

#include <atomic>
#include <chrono>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <ostream>
#include <thread>
#include <vector>

#include "base/usable_cores.h"
#include "gtest/gtest.h"
#include "kernels/cpu/linear/tile_amx.h"
#include "kernels/numbers/bfloat16.h"
#include "tests/kernels/cpu/amx_stand_in.h"
#include "tests/kernels/ops/op_testing.h"

namespace tvq {
namespace {

// Exactly as many bytes as asked for, so that AddressSanitizer sees whoever reads on.
struct Memory {
  explicit Memory(int64_t bytes)
      : size(static_cast<size_t>(bytes)), data(std::make_unique<std::byte[]>(size)) {}
  size_t size;
  std::unique_ptr<std::byte[]> data;
};

struct Inputs {
  int64_t in;
  int64_t row_bytes;
  std::vector<float> x;
  Memory rows;
  Memory panels;
};

Inputs MakeInputs(const LinearWeight& weight, RowFormat format, int64_t rows) {
  const int64_t in = weight.in;
  const int64_t row_bytes = PreparedRowBytes(in, format);
  Inputs inputs{in, row_bytes, RandomFloats(rows * in, 1), Memory(rows * row_bytes),
                Memory(PairBytes(in, weight.dtype))};
  for (int64_t r = 0; r < rows; ++r) {
    PrepareRow(inputs.x.data() + r * in, nullptr, in, format,
               inputs.rows.data.get() + r * row_bytes);
  }
  std::memcpy(inputs.panels.data.get(), weight.data.data(), inputs.panels.size);
  return inputs;
}

// [row_count, 32], of rows [first, first + row_count).
std::vector<float> Multiply(TileFunction tile, const Inputs& inputs, int64_t first,
                            int64_t row_count) {
  alignas(64) float sums[kTileFloats];
  tile({.rows = inputs.rows.data.get() + first * inputs.row_bytes,
        .row_bytes = inputs.row_bytes,
        .row_count = row_count,
        .panels = inputs.panels.data.get(),
        .in = inputs.in},
       sums);
  return {sums, sums + row_count * kPairOutputs};
}

constexpr int64_t kWidths[] = {1, 2, 3, 5, 31, 32, 33, 62, 63, 64, 65, 66, 127, 128, 131, 515};

LinearWeight Pack(Device& device, const std::vector<float>& w, int64_t in, DType dtype) {
  const HostMatrix matrix{w.data(), kPairOutputs, in};
  return PackLinear(device, {&matrix, 1}, dtype).value();
}

struct TilesCase {
  const char* name;
  const AmxTiles* tiles;
};
void PrintTo(const TilesCase& c, std::ostream* out) { *out << c.name; }

std::vector<TilesCase> AllTiles() {
  std::vector<TilesCase> cases{{"StandIn", &kAmxTilesOf<AmxStandIn>}};
  if (const AmxTiles* tiles = UsableAmxTiles()) cases.push_back({"Instructions", tiles});
  return cases;
}

class AmxTileTest : public testing::TestWithParam<TilesCase> {
 protected:
  const AmxTiles& tiles_ = *GetParam().tiles;
};

INSTANTIATE_TEST_SUITE_P(All, AmxTileTest, testing::ValuesIn(AllTiles()),
                         [](const auto& info) { return info.param.name; });

TEST_P(AmxTileTest, BFloat16AgreesWithFloat64WhateverTheNumberOfRows) {
  const auto device = MakeTestDevice("cpu");
  for (const int64_t in : kWidths) {
    const std::vector<float> w = RandomFloats(kPairOutputs * in, 2);
    const LinearWeight weight = Pack(*device, w, in, DType::kBFloat16);
    const Inputs all = MakeInputs(weight, RowFormat::kBFloat16, kAmxBFloat16Rows);
    const std::vector<float> sums = Multiply(tiles_.bfloat16, all, 0, kAmxBFloat16Rows);
    for (int64_t r = 0; r < kAmxBFloat16Rows; ++r) {
      for (int64_t o = 0; o < kPairOutputs; ++o) {
        double sum = 0, terms = 0;
        for (int64_t i = 0; i < in; ++i) {
          const double product =
              static_cast<double>(ToFloat(ToBFloat16(all.x[static_cast<size_t>(r * in + i)]))) *
              ToFloat(ToBFloat16(w[static_cast<size_t>(o * in + i)]));
          sum += product;
          terms += std::abs(product);
        }
        // Of a product: those of its half of a step, of both halves, and of the steps from its own
        // on. A first one of either half is exact.
        const int64_t steps = (in + 31) / 32;
        const int64_t roundings = std::min<int64_t>((in - 1) / 2, 15) + 1 + steps - 1;
        ASSERT_NEAR(sums[static_cast<size_t>(r * kPairOutputs + o)], sum, Gamma(roundings) * terms)
            << "in " << in << ", row " << r << ", output " << o;
      }
    }
    // From either end, so that a row is in every place and in both blocks.
    for (int64_t rows = 1; rows < kAmxBFloat16Rows; ++rows) {
      for (const int64_t first : {int64_t{0}, kAmxBFloat16Rows - rows}) {
        const std::vector<float> some = Multiply(tiles_.bfloat16, all, first, rows);
        EXPECT_TRUE(std::equal(some.begin(), some.end(), sums.begin() + first * kPairOutputs))
            << "in " << in << ", " << rows << " rows from " << first;
      }
    }
  }
}

TEST_P(AmxTileTest, Int8HasTheBitsOfOtherTiles) {
  const auto device = MakeTestDevice("cpu");
  for (const int64_t in : kWidths) {
    const LinearWeight weight = Pack(*device, RandomFloats(kPairOutputs * in, 2), in, DType::kInt8);
    const Inputs bytes = MakeInputs(weight, RowFormat::kFixedPointBytes, kAmxInt8Rows);
    const Inputs words = MakeInputs(weight, RowFormat::kFixedPointWords, kAmxInt8Rows);
    for (int64_t rows = 1; rows <= kAmxInt8Rows; ++rows) {
      const int64_t last = kAmxInt8Rows - rows;
      const std::vector<float> sums = Multiply(tiles_.int8, bytes, last, rows);
      for (int64_t r = 0; r < rows; r += kTileRows) {
        const std::vector<float> others =
            Multiply(TileInt8, words, last + r, std::min(kTileRows, rows - r));
        EXPECT_TRUE(std::equal(others.begin(), others.end(), sums.begin() + r * kPairOutputs))
            << "in " << in << ", " << rows << " rows, row " << r;
      }
    }
  }
}

// As documented, and not as one multiply-add after the other would: 2^24 and the ones that it would
// swallow are added apart.
TEST_P(AmxTileTest, AddsEvenAndOddProductsApart) {
  const auto device = MakeTestDevice("cpu");
  constexpr int64_t kIn = 8;
  std::vector<float> w(kPairOutputs * kIn, 1.0F);
  const LinearWeight weight = Pack(*device, w, kIn, DType::kBFloat16);
  Inputs inputs = MakeInputs(weight, RowFormat::kBFloat16, 1);
  const float x[kIn] = {0x1p24F, 1, 0, 1, 0, 1, 0, 1};
  PrepareRow(x, nullptr, kIn, RowFormat::kBFloat16, inputs.rows.data.get());
  EXPECT_EQ(Multiply(tiles_.bfloat16, inputs, 0, 1)[0], 0x1p24F + 4);
}

TEST_P(AmxTileTest, HasNoSubnormalNumbers) {
  const auto device = MakeTestDevice("cpu");
  constexpr float kSmallest = std::numeric_limits<float>::min();
  const std::vector<float> w(kPairOutputs, 0.5F);
  const LinearWeight weight = Pack(*device, w, 1, DType::kBFloat16);
  Inputs inputs = MakeInputs(weight, RowFormat::kBFloat16, 1);
  for (const float x : {kSmallest / 2, kSmallest}) {
    PrepareRow(&x, nullptr, 1, RowFormat::kBFloat16, inputs.rows.data.get());
    EXPECT_EQ(Multiply(tiles_.bfloat16, inputs, 0, 1)[0], 0);
  }
  const float x = 2 * kSmallest;
  PrepareRow(&x, nullptr, 1, RowFormat::kBFloat16, inputs.rows.data.get());
  EXPECT_EQ(Multiply(tiles_.bfloat16, inputs, 0, 1)[0], kSmallest);
}

TEST_P(AmxTileTest, BFloat16HasTheBitsOfTheStandIn) {
  const auto device = MakeTestDevice("cpu");
  for (const int64_t in : kWidths) {
    const std::vector<float> w = RandomFloats(kPairOutputs * in, 2);
    const Inputs inputs =
        MakeInputs(Pack(*device, w, in, DType::kBFloat16), RowFormat::kBFloat16, kAmxBFloat16Rows);
    for (const int64_t rows : {int64_t{1}, int64_t{16}, int64_t{17}, kAmxBFloat16Rows}) {
      EXPECT_EQ(Multiply(tiles_.bfloat16, inputs, 0, rows),
                Multiply(kAmxTilesOf<AmxStandIn>.bfloat16, inputs, 0, rows))
          << "in " << in << ", " << rows << " rows";
    }
  }
}

// More of them than there are cores, for as long as several turns on one: the system takes a thread
// off in the middle of its tiles, and gives them back.
TEST_P(AmxTileTest, ThreadsHaveTilesOfTheirOwn) {
  constexpr std::chrono::milliseconds kTurns{20};
  constexpr int64_t kIn = 515;
  const auto device = MakeTestDevice("cpu");
  const std::vector<float> w = RandomFloats(kPairOutputs * kIn, 2);
  const Inputs pairs =
      MakeInputs(Pack(*device, w, kIn, DType::kBFloat16), RowFormat::kBFloat16, kAmxBFloat16Rows);
  const Inputs bytes =
      MakeInputs(Pack(*device, w, kIn, DType::kInt8), RowFormat::kFixedPointBytes, kAmxInt8Rows);
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < UsableCores() + 2; ++t) {
    const bool whole = t % 2 == 0;
    const TileFunction tile = whole ? tiles_.int8 : tiles_.bfloat16;
    const Inputs& inputs = whole ? bytes : pairs;
    // Rows of its own, so that its tiles have other shapes than the others'.
    const int64_t first = t % 7;
    const int64_t rows = (whole ? kAmxInt8Rows : kAmxBFloat16Rows) - first;
    const std::vector<float> alone = Multiply(tile, inputs, first, rows);
    threads.emplace_back([tile, &inputs, first, rows, alone, &wrong, kTurns] {
      const auto end = std::chrono::steady_clock::now() + kTurns;
      do {
        if (Multiply(tile, inputs, first, rows) != alone) ++wrong;
      } while (std::chrono::steady_clock::now() < end);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

// What decides whether the instructions are used.
TEST(AmxTilesTest, WhatMultipliesWrongIsNotUsed) {
  const AmxTiles good = kAmxTilesOf<AmxStandIn>;
  EXPECT_TRUE(MultiplyRight(good));
  AmxTiles bad = good;
  bad.bfloat16 = [](const TileInput& input, float* sums) {
    kAmxTilesOf<AmxStandIn>.bfloat16(input, sums);
    sums[input.row_count * kPairOutputs - 1] += 1;
  };
  EXPECT_FALSE(MultiplyRight(bad));
  bad = good;
  bad.int8 = [](const TileInput& input, float* sums) {
    kAmxTilesOf<AmxStandIn>.int8(input, sums);
    sums[0] += 1;
  };
  EXPECT_FALSE(MultiplyRight(bad));
}

}  // namespace
}  // namespace tvq
