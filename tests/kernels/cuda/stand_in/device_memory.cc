// What cudaMalloc gives: heap memory, poisoned unless somebody has access.
#include "tests/kernels/cuda/stand_in/device_memory.h"

#include <sanitizer/asan_interface.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <map>
#include <mutex>

#include "tests/kernels/cuda/stand_in/runtime.h"

namespace tvq::cuda_stand_in {
namespace {

class DeviceMemory {
 public:
  static DeviceMemory& Instance() {
    static DeviceMemory memory;
    return memory;
  }

  void* Allocate(size_t bytes) {
    const std::lock_guard lock(mutex_);
    if (bytes > total_ - std::min(used_, total_)) return nullptr;
    // Aligned as cudaMalloc aligns.
    void* data = nullptr;
    if (posix_memalign(&data, 256, bytes) != 0) return nullptr;
    if (data != nullptr) {
      blocks_[data] = {bytes, next_number_++};
      used_ += bytes;
      if (users_ == 0) ASAN_POISON_MEMORY_REGION(data, bytes);
    }
    return data;
  }
  void Free(void* data) {
    const std::lock_guard lock(mutex_);
    if (const auto block = blocks_.find(data); block != blocks_.end()) {
      ASAN_UNPOISON_MEMORY_REGION(data, block->second.bytes);
      used_ -= block->second.bytes;
      blocks_.erase(block);
    }
    std::free(data);
  }
  bool Holds(const void* data, size_t bytes) {
    const std::lock_guard lock(mutex_);
    const auto behind = blocks_.upper_bound(const_cast<void*>(data));
    if (behind == blocks_.begin()) return false;
    const auto& [block, entry] = *std::prev(behind);
    const size_t size = entry.bytes;
    const auto at = static_cast<size_t>(static_cast<const std::byte*>(data) -
                                        static_cast<const std::byte*>(block));
    return at <= size && bytes <= size - at;
  }
  std::vector<DeviceBlock> Blocks() {
    const std::lock_guard lock(mutex_);
    std::vector<DeviceBlock> blocks;
    blocks.reserve(blocks_.size());
    for (const auto& [data, entry] : blocks_) {
      blocks.push_back({{static_cast<std::byte*>(data), entry.bytes}, entry.number});
    }
    return blocks;
  }
  void SetTotal(size_t bytes) {
    const std::lock_guard lock(mutex_);
    total_ = bytes;
  }
  MemoryOfGpu Info() {
    const std::lock_guard lock(mutex_);
    return {total_ - std::min(used_, total_), total_};
  }
  void Enter() {
    const std::lock_guard lock(mutex_);
    if (users_++ > 0) return;
    for (const auto& [data, entry] : blocks_) ASAN_UNPOISON_MEMORY_REGION(data, entry.bytes);
  }
  void Leave() {
    const std::lock_guard lock(mutex_);
    if (--users_ > 0) return;
    for (const auto& [data, entry] : blocks_) ASAN_POISON_MEMORY_REGION(data, entry.bytes);
  }

 private:
  std::mutex mutex_;
  struct Entry {
    size_t bytes = 0;
    int64_t number = 0;
  };
  std::map<void*, Entry> blocks_;
  int64_t next_number_ = 0;
  size_t used_ = 0, total_ = size_t{16} << 30;
  int users_ = 0;
};

}  // namespace

DeviceMemoryAccess::DeviceMemoryAccess() { DeviceMemory::Instance().Enter(); }
DeviceMemoryAccess::~DeviceMemoryAccess() { DeviceMemory::Instance().Leave(); }

void* AllocateDeviceMemory(size_t bytes) { return DeviceMemory::Instance().Allocate(bytes); }
std::vector<DeviceBlock> DeviceBlocks() { return DeviceMemory::Instance().Blocks(); }
MemoryOfGpu MemoryInfo() { return DeviceMemory::Instance().Info(); }
void SetMemoryOfGpu(size_t bytes) { DeviceMemory::Instance().SetTotal(bytes); }
void FreeDeviceMemory(void* data) { DeviceMemory::Instance().Free(data); }
bool IsDeviceMemory(const void* data, size_t bytes) {
  return DeviceMemory::Instance().Holds(data, bytes);
}

}  // namespace tvq::cuda_stand_in
