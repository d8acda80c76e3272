// Stands in for the CUDA toolkit where kernels run on the CPU (tests without a GPU): enough of the
// language for our own sources, the threads of a block as fibers that switch at barriers and warp
// functions. Index arithmetic, bounds and barriers are the subject, speed is not.
//
// What a GPU leaves open is made visible: the fibers of a block run in a chosen order (forwards,
// backwards, shuffled), so that a missing barrier shows as a difference between orders or from the
// oracle; shared memory is a block of the heap, filled with NaN patterns, so that AddressSanitizer
// sees its bounds and nothing lives on from the block before; what a copy brings is NaN until its
// thread has waited for it (async_copies.h); a barrier that not all threads reach, or more shared
// memory than every GPU gives a block, ends the process, naming the kernel.
#ifndef TVQ_TESTS_KERNELS_CUDA_STAND_IN_CUDA_RUNTIME_H_
#define TVQ_TESTS_KERNELS_CUDA_STAND_IN_CUDA_RUNTIME_H_

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <type_traits>

// The names are CUDA's: NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming)
// The language.
#define __global__
#define __device__
#define __host__
// As CUDA means it, of what lanes call all the time. It keeps values in registers: AddressSanitizer
// gives those in memory a new place at each call, and all the lanes' places together fit no cache.
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)

struct dim3 {
  unsigned x = 1, y = 1, z = 1;
};

struct alignas(8) float2 {
  float x, y;
};
struct alignas(16) float4 {
  float x, y, z, w;
};
struct alignas(16) uint4 {
  uint32_t x, y, z, w;
};

namespace tvq::cuda_stand_in {

constexpr int kWarpSize = 32;
constexpr size_t kExchangeBytes = 32;

// A place of kExchangeBytes for each lane of a warp, where warp functions leave what the other
// lanes read after a WarpBarrier.
using Exchange = std::array<std::array<std::byte, kExchangeBytes>, kWarpSize>;

// Where the running fiber stands.
struct ThreadPosition {
  dim3 thread, block, block_size, grid_size;
  int lane = 0;
  // Of the warp, two: every second call gets the same one, as a lane cannot be two calls ahead of
  // another.
  Exchange* exchanges = nullptr;
  bool odd_exchange = false;
};
inline constinit thread_local ThreadPosition* g_position = nullptr;
inline const ThreadPosition& Position() { return *g_position; }
inline int Lane() { return g_position->lane; }
inline Exchange& NextExchange() {
  g_position->odd_exchange = !g_position->odd_exchange;
  return g_position->exchanges[g_position->odd_exchange ? 1 : 0];
}

// In which order the lanes of a warp, the warps of a block and the blocks of a grid take turns. For
// the whole process.
struct ThreadOrder {
  enum Kind { kForwards, kBackwards, kShuffled } kind = kForwards;
  uint32_t seed = 1;  // of kShuffled
};
void SetThreadOrder(ThreadOrder order);

// Ends the process, naming the kernel.
[[noreturn]] void Fail(const char* kernel, const char* what);

// Runs `thread` once for every thread of the grid; returns when all have ended. `shared_bytes` of
// dynamic shared memory a block. `overlaps`: every thread must call WaitForGrid.
void RunGrid(const char* kernel, dim3 grid, dim3 block, size_t shared_bytes,
             const std::function<void()>& thread, bool overlaps = false);

// A kernel's wait for the one before it, which has ended long ago; see overlap.h.
void WaitForGrid();

// Shared memory of the running block. The static one exists from its first use on, with the size
// of that use; a kernel has at most one.
void* DynamicSharedMemory();
void* StaticSharedMemory(size_t bytes);

// Of the running thread; see async_copies.h.
void StartAsyncCopy(void* to, const void* from, size_t bytes);
void CloseAsyncCopies();
void WaitForAsyncCopies(int later);

// All threads of the block wait for each other; all lanes of `mask` in the running warp do.
void BlockBarrier();
void WarpBarrier(uint32_t mask);

// Every lane of `mask` gives `value`; afterwards Read(lane) is what that lane gave.
template <typename T>
class WarpValues {
 public:
  __forceinline__ WarpValues(uint32_t mask, const T& value) : places_(NextExchange()) {
    static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= kExchangeBytes);
    std::memcpy(places_[static_cast<size_t>(Lane())].data(), &value, sizeof(T));
    WarpBarrier(mask);
  }
  __forceinline__ T Read(int lane) const {
    T value;
    std::memcpy(&value, places_[static_cast<size_t>(lane)].data(), sizeof(T));
    return value;
  }

 private:
  Exchange& places_;
};

}  // namespace tvq::cuda_stand_in

#define threadIdx (tvq::cuda_stand_in::Position().thread)
#define blockIdx (tvq::cuda_stand_in::Position().block)
#define blockDim (tvq::cuda_stand_in::Position().block_size)
#define gridDim (tvq::cuda_stand_in::Position().grid_size)

inline void __syncthreads() { tvq::cuda_stand_in::BlockBarrier(); }
inline void __syncwarp(uint32_t mask = 0xffffffffU) { tvq::cuda_stand_in::WarpBarrier(mask); }

template <typename T>
__forceinline__ T __shfl_sync(uint32_t mask, T value, int lane) {
  return tvq::cuda_stand_in::WarpValues<T>(mask, value).Read(lane & 31);
}
template <typename T>
__forceinline__ T __shfl_xor_sync(uint32_t mask, T value, int bits) {
  return tvq::cuda_stand_in::WarpValues<T>(mask, value).Read(tvq::cuda_stand_in::Lane() ^ bits);
}
template <typename T>
__forceinline__ T __shfl_down_sync(uint32_t mask, T value, unsigned lanes) {
  const int from = tvq::cuda_stand_in::Lane() + static_cast<int>(lanes);
  const tvq::cuda_stand_in::WarpValues<T> values(mask, value);
  return from < tvq::cuda_stand_in::kWarpSize ? values.Read(from) : value;
}
__forceinline__ uint32_t __ballot_sync(uint32_t mask, bool predicate) {
  const tvq::cuda_stand_in::WarpValues<bool> values(mask, predicate);
  uint32_t votes = 0;
  for (int lane = 0; lane < tvq::cuda_stand_in::kWarpSize; ++lane) {
    if ((mask >> lane & 1U) != 0 && values.Read(lane)) votes |= 1U << lane;
  }
  return votes;
}

using std::isfinite;
using std::min;
inline unsigned long long __double2ull_rn(double x) {
  return static_cast<unsigned long long>(std::nearbyint(x));
}
// Byte i of the result is byte (selector >> 4 i) & 7 of the eight, `low` first.
inline uint32_t __byte_perm(uint32_t low, uint32_t high, uint32_t selector) {
  const uint64_t bytes = uint64_t{high} << 32 | low;
  uint32_t result = 0;
  for (uint32_t i = 0; i < 4; ++i) {
    result |= static_cast<uint32_t>(bytes >> (selector >> 4 * i & 7U) * 8 & 0xffU) << 8 * i;
  }
  return result;
}
inline int __popc(uint32_t x) { return std::popcount(x); }
inline void __threadfence() {}
inline uint32_t __float_as_uint(float x) { return std::bit_cast<uint32_t>(x); }
inline float __uint_as_float(uint32_t x) { return std::bit_cast<float>(x); }

// Fibers take turns only at barriers.
template <typename T>
T atomicAdd(T* to, T value) {
  const T before = *to;
  *to += value;
  return before;
}

#include "tests/kernels/cuda/stand_in/runtime.h"
// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)

#endif  // TVQ_TESTS_KERNELS_CUDA_STAND_IN_CUDA_RUNTIME_H_
