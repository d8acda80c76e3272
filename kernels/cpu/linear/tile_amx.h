// The tile products by AMX: bfloat16 by TDPBF16PS, int8 by TDPBSUD.
#ifndef TVQ_KERNELS_CPU_LINEAR_TILE_AMX_H_
#define TVQ_KERNELS_CPU_LINEAR_TILE_AMX_H_

#include "kernels/cpu/linear/tile.h"

namespace tvq {

struct AmxTiles {
  TileFunction bfloat16;  // rows kBFloat16, panels bfloat16, up to kAmxBFloat16Rows rows
  TileFunction int8;      // rows kFixedPointBytes, panels int8, up to kAmxInt8Rows rows
};

inline constexpr int64_t kAmxBFloat16Rows = 32;
inline constexpr int64_t kAmxInt8Rows = 16;

// The tiles that use AMX's instructions; null where the processor, the system or this build does
// not have them. The first call asks the system for permission to use them.
const AmxTiles* UsableAmxTiles();

// Whether products of small integers come out right. Few processors with AMX have run these tiles,
// so they are used only where they have passed this check.
bool MultiplyRight(const AmxTiles& tiles);

}  // namespace tvq

#endif  // TVQ_KERNELS_CPU_LINEAR_TILE_AMX_H_
