// Multiplies tiles of small integers by AMX. Their sums are exact, in whatever order they are
// added.
#include <cstring>
#include <vector>

#include "kernels/cpu/linear/tile_amx.h"
#include "kernels/numbers/bfloat16.h"

namespace tvq {
namespace {

constexpr int64_t kIn = 155;  // whole steps and a part of one, for either dtype

int64_t ValueOf(int64_t row, int64_t i) { return (row * 37 + i * 11) % 241 - 120; }
int64_t WeightOf(int64_t output, int64_t i) { return (output * 13 + i * 5) % 15 - 7; }

// Prepared rows whose values are ValueOf times `factor`.
std::vector<std::byte> Rows(int64_t count, RowFormat format, float factor) {
  const int64_t row_bytes = PreparedRowBytes(kIn, format);
  std::vector<std::byte> rows(static_cast<size_t>(count * row_bytes));
  for (int64_t r = 0; r < count; ++r) {
    float x[kIn];
    for (int64_t i = 0; i < kIn; ++i) x[i] = static_cast<float>(ValueOf(r, i)) * factor;
    PrepareRow(x, nullptr, kIn, format, rows.data() + r * row_bytes);
  }
  return rows;
}

// A pair of panels, laid out as packed_weight.h says.
std::vector<std::byte> Panels(DType dtype) {
  std::vector<std::byte> panels(static_cast<size_t>(PairBytes(kIn, dtype)));
  const int64_t of_a_line = dtype == DType::kInt8 ? 4 : 2;
  for (int64_t output = 0; output < kPairOutputs; ++output) {
    for (int64_t i = 0; i < kIn; ++i) {
      const int64_t line = i / of_a_line * 2 + output / kPanelOutputs;
      std::byte* to = panels.data() + line * kLineBytes + output % kPanelOutputs * 4 +
                      i % of_a_line * (4 / of_a_line);
      const int64_t weight = WeightOf(output, i);
      if (dtype == DType::kInt8) {
        *to = static_cast<std::byte>(weight + kInt8Offset);
      } else {
        const BFloat16 rounded = ToBFloat16(static_cast<float>(weight));
        std::memcpy(to, &rounded, sizeof(rounded));
      }
    }
  }
  return panels;
}

bool MultipliesRight(TileFunction tile, DType dtype, RowFormat format, float factor,
                     int64_t row_count) {
  const std::vector<std::byte> rows = Rows(row_count, format, factor);
  const std::vector<std::byte> panels = Panels(dtype);
  alignas(64) float sums[kTileFloats];
  tile({.rows = rows.data(),
        .row_bytes = PreparedRowBytes(kIn, format),
        .row_count = row_count,
        .panels = panels.data(),
        .in = kIn},
       sums);
  for (int64_t r = 0; r < row_count; ++r) {
    for (int64_t o = 0; o < kPairOutputs; ++o) {
      int64_t sum = 0;
      for (int64_t i = 0; i < kIn; ++i) sum += ValueOf(r, i) * WeightOf(o, i);
      if (sums[r * kPairOutputs + o] != static_cast<float>(sum) * factor) return false;
    }
  }
  return true;
}

}  // namespace

bool MultiplyRight(const AmxTiles& tiles) {
  for (const int64_t row_count : {int64_t{1}, int64_t{16}, kAmxBFloat16Rows - 1}) {
    if (!MultipliesRight(tiles.bfloat16, DType::kBFloat16, RowFormat::kBFloat16, 1, row_count)) {
      return false;
    }
  }
  // Makes values so large that both bytes of a fixed-point number are used.
  constexpr float kFactor = 66;
  for (const int64_t row_count : {int64_t{1}, kAmxInt8Rows}) {
    if (!MultipliesRight(tiles.int8, DType::kInt8, RowFormat::kFixedPointBytes, kFactor,
                         row_count)) {
      return false;
    }
  }
  return true;
}

}  // namespace tvq
