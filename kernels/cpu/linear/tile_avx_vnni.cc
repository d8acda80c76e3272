// The tile products of int8 and int4 weights by AVX-VNNI, in its 16 registers: up to 3 rows by a
// panel at a time, or one row by both.
#include <algorithm>
#include <cstdlib>

#include "kernels/cpu/linear/tile.h"

#if defined(__x86_64__)

#define TVQ_VNNI_BITS 256
#include "kernels/cpu/linear/tile_vnni-inl.h"

namespace tvq {
namespace {

constexpr int64_t kMaxRows = 3;

template <typename Panels, int R>
void SumRows(const TileInput& input, int64_t row, float* sums) {
  constexpr int kPanels = R == 1 ? 2 : 1;
  AheadFetch ahead(row == 0 ? input : TileInput(), Panels::Lines(input.in));
  for (int64_t panel = 0; panel < 2; panel += kPanels) {
    Panels::template Sum<R, kPanels>(input, row, panel, ahead, sums);
    ahead = AheadFetch(TileInput(), 0);  // prefetches only once
  }
}

template <typename Panels>
void SumTile(const TileInput& input, float* sums) {
  using Function = void (*)(const TileInput&, int64_t, float*);
  static constexpr Function kByRows[kMaxRows] = {SumRows<Panels, 1>, SumRows<Panels, 2>,
                                                 SumRows<Panels, 3>};
  for (int64_t row = 0; row < input.row_count; row += kMaxRows) {
    kByRows[std::min(input.row_count - row, kMaxRows) - 1](input, row, sums);
  }
}

}  // namespace

void TileInt8Dot256(const TileInput& input, float* sums) {
  SumTile<avx_vnni::Int8Panels>(input, sums);
}
void TileInt4Dot256(const TileInput& input, float* sums) {
  SumTile<avx_vnni::Int4Panels>(input, sums);
}

}  // namespace tvq

#else

namespace tvq {

void TileInt8Dot256(const TileInput&, float*) { std::abort(); }
void TileInt4Dot256(const TileInput&, float*) { std::abort(); }

}  // namespace tvq

#endif
