// The parts of a linear on the CPU: prepare rows, multiply a tile, store it.
//
// A tile is up to 6 rows by one pair of panels (32 outputs). Whatever the number of rows, every
// output is the sum of two partial sums: one of the even and one of the odd steps along `in` (for
// VDPBF16PS, of the even and odd pairs of steps). So 6 rows x 2 panels x 2 = 24 accumulators take
// 24 of the 32 registers of AVX-512. For an int8 or int4 weight they are sums of integers, of the
// upper and of the lower bytes of x. With AMX a tile has up to 32 rows, and tile_amx-inl.h says in
// which order it adds.
#ifndef TVQ_KERNELS_CPU_LINEAR_TILE_H_
#define TVQ_KERNELS_CPU_LINEAR_TILE_H_

#include <cstddef>
#include <span>

#include "kernels/cpu/linear/fixed_point.h"
#include "kernels/cpu/linear/packed_weight.h"

namespace tvq {

inline constexpr int64_t kTileRows = 6;      // where sums are in vector registers
inline constexpr int64_t kMaxTileRows = 32;  // of any tile
// Sums of a tile [kMaxTileRows][32], and room for a vector that starts at the last of them.
inline constexpr int64_t kTileFloats = (kMaxTileRows + 1) * kPairOutputs;

// How a prepared row holds its values.
enum class RowFormat : uint8_t {
  kFloat32,          // [in]
  kBFloat16AsFloat,  // rounded to bfloat16, stored as float32, padded to an even number
  kBFloat16,         // bfloat16 pairs, padded to an even number
  kFixedPointWords,  // fixed_point.h, for int8 weights
  kFixedPointBytes,
  kGroupedWords,  // likewise, for int4 weights
  kGroupedBytes,
};

// Bytes from one prepared row to the next.
inline int64_t PreparedRowBytes(int64_t in, RowFormat format) {
  if (format == RowFormat::kFloat32) return in * 4;
  if (format >= RowFormat::kGroupedWords) return GroupedRowBytes(in);
  if (format >= RowFormat::kFixedPointWords) return FixedPointRowBytes(in);
  return (in + 1) / 2 * 2 * (format == RowFormat::kBFloat16 ? 2 : 4);
}

// row = x, or x * times where `times` is given. x, times [in].
void PrepareRow(const float* x, const float* times, int64_t in, RowFormat format, void* row);

// Bytes that will be read: those from `first` on, then those from `second` on.
struct AheadBytes {
  const std::byte* first = nullptr;
  int64_t first_bytes = 0;
  const std::byte* second = nullptr;
  int64_t second_bytes = 0;
};

// What a tile is computed from: `row_count` prepared rows, `row_bytes` apart, and a pair of panels.
// Meanwhile the tile fetches `ahead`.
struct TileInput {
  const void* rows = nullptr;
  int64_t row_bytes = 0;
  int64_t row_count = 0;  // 1 to the most that the tile takes: kTileRows unless it says otherwise
  const void* panels = nullptr;
  int64_t in = 0;
  AheadBytes ahead;
};

// Prefetches a tile's `ahead`, spread evenly over the turns of the tile's loop, so that memory is
// never idle while a tile computes: with 16 rows a pair of panels is read three times, and only the
// first read would touch memory. It prefetches into the L1 cache. What falls out of that stays in
// the L2 cache, and on Zen 5 this is up to a third faster than prefetching into the L2 cache.
class AheadFetch {
 public:
  AheadFetch(const TileInput& input, int64_t turns)
      : at_(input.ahead.first), left_(input.ahead.first_bytes), second_(input.ahead.second) {
    const int64_t bytes = input.ahead.first_bytes + input.ahead.second_bytes;
    step_ = turns == 0 ? 0 : (bytes + turns - 1) / turns;
  }

  __attribute__((always_inline)) void Turn() {
    for (due_ += step_; due_ > 0; due_ -= kLineBytes) {
      if (left_ == 0) {
        if (second_ == nullptr) return;
        at_ = second_;
        second_ = nullptr;
      }
      __builtin_prefetch(at_, 0, 3);
      at_ += kLineBytes;
      left_ -= kLineBytes;
    }
  }

 private:
  const std::byte* at_;
  int64_t left_;  // of the first bytes; below 0 in the second ones
  const std::byte* second_;
  int64_t step_ = 0;
  int64_t due_ = 0;
};

using TileFunction = void (*)(const TileInput& input, float* sums);

// Rows kFloat32, panels float32.
void TileFloat32(const TileInput& input, float* sums);
// Rows kBFloat16AsFloat, panels bfloat16.
void TileBFloat16(const TileInput& input, float* sums);
// A pair of panels as float32. TileFloat32 of it and of an even `in` has the same bits as
// TileBFloat16, which widens weights as it reads them. wide [PairBytes(in, kFloat32)], of the even
// `in`.
void WidenPair(const void* panels, int64_t in, float* wide);
// Rows kBFloat16, panels bfloat16, by VDPBF16PS. Only where the device's dot().bf16 says so.
void TileBFloat16Dot(const TileInput& input, float* sums);
// Rows kFixedPointWords, panels int8.
void TileInt8(const TileInput& input, float* sums);
// Rows kFixedPointBytes, panels int8, by VPDPBUSD. Only where the device's dot().int8 says so, or
// for the latter dot().int8_256.
void TileInt8Dot(const TileInput& input, float* sums);
void TileInt8Dot256(const TileInput& input, float* sums);
// Rows kGroupedWords, panels int4. The integer sum of each group is converted to float32,
// multiplied with the group's scale and added to the groups before it. The total is multiplied with
// the row's step.
void TileInt4(const TileInput& input, float* sums);
// Rows kGroupedBytes, panels int4, by VPDPBUSD. Only where the device's dot().int8 says so, or for
// the latter dot().int8_256.
void TileInt4Dot(const TileInput& input, float* sums);
void TileInt4Dot256(const TileInput& input, float* sums);

// Where a range of outputs goes and what is done to them on the way (see LinearArgs).
struct OutputColumns {
  int64_t first = 0;
  int64_t count = 0;
  float* y = nullptr;  // [N, stride], its column 0 is output `first`
  int64_t stride = 0;
  const float* bias = nullptr;  // of output `first`, or null
  float scale = 1;
  Activation activation = Activation::kNone;
  bool accumulate = false;
};

// Writes the sums of rows [row, row + rows) and of the outputs from `column` on, times
// scales[output] where `scales` [out] is given.
void StoreTile(const float* sums, int64_t row, int64_t rows, int64_t column, const float* scales,
               std::span<const OutputColumns> outputs);

}  // namespace tvq

#endif  // TVQ_KERNELS_CPU_LINEAR_TILE_H_
