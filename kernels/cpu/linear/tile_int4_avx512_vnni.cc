// The tile product of int4 weights by AVX512-VNNI: up to 6 rows by both panels.
#include <cstdlib>

#include "kernels/cpu/linear/tile.h"

#if defined(__x86_64__)

#define TVQ_VNNI_BITS 512
#include "kernels/cpu/linear/tile_int4_vnni-inl.h"

namespace tvq {
namespace {

template <int R>
void SumRows(const TileInput& input, float* sums) {
  const AheadFetch ahead(input, Int4Groups(input.in) * kInt4PanelLines);
  avx512_vnni::SumGroups<R, 2>(input, 0, 0, ahead, sums);
}

}  // namespace

void TileInt4Dot(const TileInput& input, float* sums) {
  static constexpr TileFunction kByRows[kTileRows] = {SumRows<1>, SumRows<2>, SumRows<3>,
                                                      SumRows<4>, SumRows<5>, SumRows<6>};
  kByRows[input.row_count - 1](input, sums);
}

}  // namespace tvq

#else

namespace tvq {

void TileInt4Dot(const TileInput&, float*) { std::abort(); }

}  // namespace tvq

#endif
