// The tile products of int8 and int4 weights by AVX512-VNNI: up to 6 rows by both panels.
#include <cstdlib>

#include "kernels/cpu/linear/tile.h"

#if defined(__x86_64__)

#define TVQ_VNNI_BITS 512
#include "kernels/cpu/linear/tile_vnni-inl.h"

namespace tvq {
namespace {

template <typename Panels, int R>
void SumRows(const TileInput& input, float* sums) {
  Panels::template Sum<R, 2>(input, 0, 0, AheadFetch(input, Panels::Lines(input.in)), sums);
}

template <typename Panels>
void SumTile(const TileInput& input, float* sums) {
  static constexpr TileFunction kByRows[kTileRows] = {SumRows<Panels, 1>, SumRows<Panels, 2>,
                                                      SumRows<Panels, 3>, SumRows<Panels, 4>,
                                                      SumRows<Panels, 5>, SumRows<Panels, 6>};
  kByRows[input.row_count - 1](input, sums);
}

}  // namespace

void TileInt8Dot(const TileInput& input, float* sums) {
  SumTile<avx512_vnni::Int8Panels>(input, sums);
}
void TileInt4Dot(const TileInput& input, float* sums) {
  SumTile<avx512_vnni::Int4Panels>(input, sums);
}

}  // namespace tvq

#else

namespace tvq {

void TileInt8Dot(const TileInput&, float*) { std::abort(); }
void TileInt4Dot(const TileInput&, float*) { std::abort(); }

}  // namespace tvq

#endif
