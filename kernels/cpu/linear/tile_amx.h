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

// By the instructions; null where the processor, the system or this build has none. The process
// asks the system for them at the first call.
const AmxTiles* UsableAmxTiles();

// Whether tiles of small integers come out as they must: few processors with AMX have run these, so
// they are used where a start has seen them work.
bool MultiplyRight(const AmxTiles& tiles);

}  // namespace tvq

#endif  // TVQ_KERNELS_CPU_LINEAR_TILE_AMX_H_
