// The tile products by AMX. `Tiles` are the instructions, or what stands in for them in tests.
//
// A processor with AMX has eight tiles of 16 rows of 64 bytes. A step multiplies 16 lines of a
// panel, which lie there as the instructions take them, with the 64 bytes of each row that belong
// to the same steps of `in`. Two blocks of rows by two panels need all eight tiles: four for sums,
// two for rows and two for panels. For bfloat16 the blocks are rows 0 to 15 and 16 to 31; for int8
// they are the upper and the lower bytes of x.
//
// A row's sum adds the steps in order, whatever the number of rows. For bfloat16 a step is two sums
// of 16 products, one of the even and one of the odd ones, and the sum of both. What is left after
// whole steps is a step of a smaller shape, so that nothing is read behind a row or a panel.
//
// `Tiles` has Configure. It has Release, which returns all tiles to their initial state, so that
// the system need not save them when a thread is taken off its core. It has Load<t> and Store<t>
// for tile t, whose rows lie a stride apart in memory, and Dot<factors, sums, a, b>, which adds a's
// rows times b to `sums`.
#ifndef TVQ_KERNELS_CPU_LINEAR_TILE_AMX_INL_H_
#define TVQ_KERNELS_CPU_LINEAR_TILE_AMX_INL_H_

#include <algorithm>

#include "kernels/cpu/linear/split_sums.h"
#include "kernels/cpu/linear/tile_amx.h"

#if defined(__x86_64__)
#define TVQ_AMX_TARGET __attribute__((target("amx-tile,amx-int8,amx-bf16")))
#else
#define TVQ_AMX_TARGET
#endif

namespace tvq {

// The operand of LDTILECFG (Intel SDM, volume 1, 18.3).
struct AmxShapes {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t rows[16] = {};

  void Set(int tile, int64_t tile_rows, int64_t tile_row_bytes) {
    rows[tile] = static_cast<uint8_t>(tile_rows);
    row_bytes[tile] = static_cast<uint16_t>(tile_row_bytes);
  }
};
static_assert(sizeof(AmxShapes) == 64);

enum class AmxFactors : uint8_t {
  kBFloat16,        // pairs of bfloat16, sums float32
  kSignedUnsigned,  // four int8 by four uint8, sums int32
};

// Up to 16 rows of factors, and the rows' sums with both panels, to which products are added. A row
// has four bytes of factors for each line of the panels.
struct AmxBlock {
  const std::byte* rows;
  int64_t row_count;
  void* sums;  // [row_count][32]
};

// Lines of the panels, `lines` at a time.
struct AmxSteps {
  int64_t first;
  int64_t lines;
  int64_t count;
};

inline constexpr int64_t kAmxStepLines = 16;

template <AmxFactors kFactors, int kBlocks, class Tiles>
TVQ_AMX_TARGET void AddAmxSteps(Tiles& tiles, const TileInput& input, const AmxBlock* blocks,
                                const AmxSteps& steps, AheadFetch& ahead) {
  constexpr int64_t kSumBytes = kPairOutputs * 4;
  AmxShapes shapes;
  for (int block = 0; block < kBlocks; ++block) {
    shapes.Set(2 * block, blocks[block].row_count, kLineBytes);
    shapes.Set(2 * block + 1, blocks[block].row_count, kLineBytes);
    shapes.Set(4 + block, blocks[block].row_count, 4 * steps.lines);
  }
  shapes.Set(6, steps.lines, kLineBytes);
  shapes.Set(7, steps.lines, kLineBytes);
  tiles.Configure(shapes);

  const AmxBlock& second = blocks[kBlocks - 1];
  auto* sums = static_cast<std::byte*>(blocks[0].sums);
  auto* second_sums = static_cast<std::byte*>(second.sums);
  tiles.template Load<0>(sums, kSumBytes);
  tiles.template Load<1>(sums + kLineBytes, kSumBytes);
  if constexpr (kBlocks == 2) {
    tiles.template Load<2>(second_sums, kSumBytes);
    tiles.template Load<3>(second_sums + kLineBytes, kSumBytes);
  }
  const auto* w = static_cast<const std::byte*>(input.panels) + steps.first * kPairLineBytes;
  const std::byte* x = blocks[0].rows + steps.first * 4;
  const std::byte* second_x = second.rows + steps.first * 4;
  for (int64_t i = 0; i < steps.count; ++i) {
    ahead.Turn();
    tiles.template Load<6>(w, kPairLineBytes);
    tiles.template Load<7>(w + kLineBytes, kPairLineBytes);
    tiles.template Load<4>(x, input.row_bytes);
    tiles.template Dot<kFactors, 0, 4, 6>();
    tiles.template Dot<kFactors, 1, 4, 7>();
    if constexpr (kBlocks == 2) {
      tiles.template Load<5>(second_x, input.row_bytes);
      tiles.template Dot<kFactors, 2, 5, 6>();
      tiles.template Dot<kFactors, 3, 5, 7>();
    }
    w += steps.lines * kPairLineBytes;
    x += steps.lines * 4;
    second_x += steps.lines * 4;
  }
  tiles.template Store<0>(sums, kSumBytes);
  tiles.template Store<1>(sums + kLineBytes, kSumBytes);
  if constexpr (kBlocks == 2) {
    tiles.template Store<2>(second_sums, kSumBytes);
    tiles.template Store<3>(second_sums + kLineBytes, kSumBytes);
  }
}

template <AmxFactors kFactors, int kBlocks, class Tiles>
TVQ_AMX_TARGET void AddAmxProducts(const TileInput& input, const AmxBlock* blocks, DType dtype) {
  const int64_t lines = PanelLines(input.in, dtype);
  const int64_t whole = lines / kAmxStepLines;
  const int64_t rest = lines % kAmxStepLines;
  AheadFetch ahead(input, whole + (rest > 0 ? 1 : 0));
  Tiles tiles;
  const auto add = [&](const AmxSteps& steps) TVQ_AMX_TARGET {
    AddAmxSteps<kFactors, kBlocks>(tiles, input, blocks, steps, ahead);
  };
  if (whole > 0) add({.first = 0, .lines = kAmxStepLines, .count = whole});
  if (rest > 0) add({.first = whole * kAmxStepLines, .lines = rest, .count = 1});
  tiles.Release();
}

template <class Tiles>
void SumAmxBFloat16(const TileInput& input, float* sums) {
  constexpr auto kFactors = AmxFactors::kBFloat16;
  constexpr int64_t kRows = 16;
  const auto* rows = static_cast<const std::byte*>(input.rows);
  std::fill_n(sums, input.row_count * kPairOutputs, 0.0F);
  if (input.row_count <= kRows) {
    const AmxBlock block{rows, input.row_count, sums};
    return AddAmxProducts<kFactors, 1, Tiles>(input, &block, DType::kBFloat16);
  }
  const AmxBlock blocks[2] = {
      {rows, kRows, sums},
      {rows + kRows * input.row_bytes, input.row_count - kRows, sums + kRows * kPairOutputs}};
  AddAmxProducts<kFactors, 2, Tiles>(input, blocks, DType::kBFloat16);
}

template <class Tiles>
void SumAmxInt8(const TileInput& input, float* sums) {
  SplitSums split;
  BeginSums(input, split);
  const std::byte* high = static_cast<const std::byte*>(input.rows) + sizeof(FixedPointHead);
  const AmxBlock blocks[2] = {{high, input.row_count, split.high},
                              {high + FixedPointValues(input.in), input.row_count, split.low}};
  AddAmxProducts<AmxFactors::kSignedUnsigned, 2, Tiles>(input, blocks, DType::kInt8);
  ScaleSums(input, split, sums);
}

template <class Tiles>
inline constexpr AmxTiles kAmxTilesOf = {SumAmxBFloat16<Tiles>, SumAmxInt8<Tiles>};

}  // namespace tvq

#endif  // TVQ_KERNELS_CPU_LINEAR_TILE_AMX_INL_H_
