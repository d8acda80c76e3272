// The instructions of AMX, and whether they may be used.
#include "kernels/cpu/linear/tile_amx.h"

#if defined(__x86_64__)

#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "kernels/cpu/linear/tile_amx-inl.h"

namespace tvq {
namespace {

#define TVQ_AMX_INLINE TVQ_AMX_TARGET __attribute__((always_inline)) static

// In assembly: g++ 12's intrinsics take only literals for tiles, and do not tell the compiler that
// loading a tile reads memory.
struct Instructions {
  TVQ_AMX_INLINE void Configure(const AmxShapes& shapes) {
    asm volatile("ldtilecfg %0" ::"m"(shapes));
  }
  TVQ_AMX_INLINE void Release() { asm volatile("tilerelease"); }

  template <int kTile>
  TVQ_AMX_INLINE void Load(const void* from, int64_t stride) {
    asm volatile("tileloadd (%0,%1,1), %%tmm%c2" ::"r"(from), "r"(stride), "i"(kTile) : "memory");
  }
  template <int kTile>
  TVQ_AMX_INLINE void Store(void* to, int64_t stride) {
    asm volatile("tilestored %%tmm%c2, (%0,%1,1)" ::"r"(to), "r"(stride), "i"(kTile) : "memory");
  }
  template <AmxFactors kFactors, int kSums, int kA, int kB>
  TVQ_AMX_INLINE void Dot() {
    if constexpr (kFactors == AmxFactors::kBFloat16) {
      asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(kSums), "i"(kA), "i"(kB));
    } else {
      asm volatile("tdpbsud %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(kSums), "i"(kA), "i"(kB));
    }
  }
};

struct Registers {
  uint32_t eax, ebx, ecx, edx;
};

// All zero where the processor has no such leaf.
Registers Cpuid(uint32_t leaf) {
  Registers r{};
  if (__get_cpuid_count(leaf, 0, &r.eax, &r.ebx, &r.ecx, &r.edx) == 0) return {};
  return r;
}

// AMX-BF16, AMX-TILE and AMX-INT8.
bool ProcessorHasAmx() {
  constexpr uint32_t kInstructions = 1U << 22 | 1U << 24 | 1U << 25;
  return (Cpuid(7).edx & kInstructions) == kInstructions;
}

// Whether the system saves tiles and their configuration, by XCR0.
bool SystemSavesTiles() {
  constexpr uint32_t kXgetbv = 1U << 27;
  constexpr uint32_t kTileState = 1U << 17 | 1U << 18;
  if ((Cpuid(1).ecx & kXgetbv) == 0) return false;
  uint32_t low, high;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (low & kTileState) == kTileState;
}

// Linux lets a process use tiles, whose state is 8 KB for each thread, after it asks for them
// (Documentation/arch/x86/xstate.rst). The permission covers all threads of the process.
bool SystemLetsUseTiles() {
  constexpr long kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM
  constexpr long kTileData = 18;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

}  // namespace

const AmxTiles* UsableAmxTiles() {
  static const bool usable = ProcessorHasAmx() && SystemSavesTiles() && SystemLetsUseTiles() &&
                             MultiplyRight(kAmxTilesOf<Instructions>);
  return usable ? &kAmxTilesOf<Instructions> : nullptr;
}

}  // namespace tvq

#else

namespace tvq {

const AmxTiles* UsableAmxTiles() { return nullptr; }

}  // namespace tvq

#endif
