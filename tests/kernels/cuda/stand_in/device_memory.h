#ifndef TVQ_TESTS_KERNELS_CUDA_STAND_IN_DEVICE_MEMORY_H_
#define TVQ_TESTS_KERNELS_CUDA_STAND_IN_DEVICE_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace tvq::cuda_stand_in {

// Memory that only kernels and copies may touch (DeviceMemoryAccess); null when there is none. Any
// thread.
void* AllocateDeviceMemory(size_t bytes);
void FreeDeviceMemory(void* data);
// Whether all these bytes are of one block of it.
bool IsDeviceMemory(const void* data, size_t bytes);

// What cudaMalloc gave and nobody has freed, in the order of addresses. No two blocks of a process
// have the same number.
struct DeviceBlock {
  std::span<std::byte> bytes;
  int64_t number = 0;
};
std::vector<DeviceBlock> DeviceBlocks();

struct MemoryOfGpu {
  size_t free = 0, total = 0;
};
MemoryOfGpu MemoryInfo();

}  // namespace tvq::cuda_stand_in

#endif  // TVQ_TESTS_KERNELS_CUDA_STAND_IN_DEVICE_MEMORY_H_
