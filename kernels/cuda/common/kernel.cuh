// What kernels are written with: places in the block, shared memory, launches.
#ifndef TVQ_KERNELS_CUDA_COMMON_KERNEL_CUH_
#define TVQ_KERNELS_CUDA_COMMON_KERNEL_CUH_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "kernels/cuda/common/overlap.cuh"
#include "kernels/cuda/cuda_device.h"
#include "kernels/cuda/cuda_ops.h"
#include "kernels/cuda/platform.h"

namespace tvq::TVQ_CUDA {

constexpr int kWarp = 32;
constexpr uint32_t kAllLanes = 0xffffffffU;

__device__ inline int LaneId() { return static_cast<int>(threadIdx.x) % kWarp; }
__device__ inline int WarpId() { return static_cast<int>(threadIdx.x) / kWarp; }

// The block's one T in shared memory, uninitialised; T has a trivial constructor.
template <typename T>
__device__ inline T& BlockShared() {
#if defined(TVQ_CUDA_STAND_IN)
  return *static_cast<T*>(StaticSharedMemory(sizeof(T)));
#else
  __shared__ T memory;
  return memory;
#endif
}

// The shared memory that the launch asked for, 16 byte aligned.
template <typename T>
__device__ inline T* LaunchShared() {
#if defined(TVQ_CUDA_STAND_IN)
  return static_cast<T*>(DynamicSharedMemory());
#else
  extern __shared__ __align__(16) unsigned char memory[];
  return reinterpret_cast<T*>(memory);
#endif
}

// The most blocks that CUDA lets a grid have in y.
constexpr int64_t kMostBlocksY = 65'535;

struct LaunchShape {
  int64_t blocks = 1;     // x
  int64_t blocks_y = 1;   // at most kMostBlocksY
  int threads = kWarp;    // of a block
  int shared_bytes = 0;   // LaunchShared; of kMostSharedBytes
  bool overlaps = false;  // the kernel keeps the rule of overlap.cuh
};

// Queues one run of `kernel` on the device's stream. Errors inside the kernel show at a later call.
// INVALID_ARGUMENT, naming the kernel, for more than kMostBlocksY blocks in y.
template <typename... Parameters, typename... Arguments>
absl::Status Launch(const char* name, Device& device, const LaunchShape& shape,
                    void (*kernel)(Parameters...), Arguments... arguments) {
  if (shape.blocks_y > kMostBlocksY) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": ", shape.blocks_y, " rows of blocks, a GPU takes ", kMostBlocksY,
                     "; let fewer sequences compute at once, or take a shorter prefill_chunk"));
  }
  const dim3 grid{static_cast<unsigned>(shape.blocks), static_cast<unsigned>(shape.blocks_y), 1};
  const dim3 block{static_cast<unsigned>(shape.threads), 1, 1};
  const auto* function = reinterpret_cast<const void*>(kernel);
  const cudaError_t allowed = AsCuda(device).AllowShared(function, shape.shared_bytes);
  if (allowed != cudaSuccess) return ToStatus(allowed, name);
#if defined(TVQ_CUDA_STAND_IN)
  return ToStatus(LaunchGrid(
                      name, grid, block, static_cast<size_t>(shape.shared_bytes),
                      [=] { kernel(Parameters(arguments)...); }, AsCuda(device).stream(),
                      shape.overlaps, function),
                  name);
#else
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = block;
  config.dynamicSmemBytes = static_cast<size_t>(shape.shared_bytes);
  config.stream = AsCuda(device).stream();
  cudaLaunchAttribute overlap{};
  overlap.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  overlap.val.programmaticStreamSerializationAllowed = 1;
  config.attrs = &overlap;
  config.numAttrs = shape.overlaps && AsCuda(device).overlaps() ? 1 : 0;
  return ToStatus(cudaLaunchKernelEx(&config, kernel, Parameters(arguments)...), name);
#endif
}

}  // namespace tvq::TVQ_CUDA

#endif  // TVQ_KERNELS_CUDA_COMMON_KERNEL_CUH_
