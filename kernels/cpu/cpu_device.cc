#include "kernels/cpu/cpu_device.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

#include "absl/strings/str_cat.h"

namespace tvq {
namespace {

constexpr size_t kAlignment = 64;

size_t RoundUp(size_t bytes, size_t multiple) {
  return (bytes + multiple - 1) / multiple * multiple;
}

// Bytes that a mapping takes. It is not rounded up to whole huge pages, or a session of 3.5 MB
// would take 4.
size_t MappedBytes(size_t bytes) {
  return RoundUp(bytes, static_cast<size_t>(sysconf(_SC_PAGESIZE)));
}

// The largest size that can be rounded up without overflow.
constexpr size_t kLargest = PTRDIFF_MAX - 2 * kHugePage;

// For sizes below a huge page. The memory is not zeroed.
Buffer AllocateSmall(size_t bytes) {
  void* data = std::aligned_alloc(kAlignment, RoundUp(bytes, kAlignment));
  return Buffer(data, bytes, [](void* block) { std::free(block); });
}

absl::Status NoMemory(size_t bytes) {
  return absl::ResourceExhaustedError(absl::StrCat("cannot allocate ", bytes, " bytes"));
}

}  // namespace

CpuDevice::CpuDevice(const Backend* backend, int threads, DotInstructions dot,
                     std::string description)
    : Device(backend), pool_(threads), dot_(dot), description_(std::move(description)) {}

absl::StatusOr<Buffer> CpuDevice::Allocate(size_t bytes) {
  if (bytes == 0) return Buffer();
  if (bytes > kLargest) return NoMemory(bytes);
  if (bytes < kHugePage) {
    Buffer memory = small_.Take(bytes);
    if (memory.data() == nullptr) return NoMemory(bytes);
    return memory;
  }
  const size_t size = MappedBytes(bytes);
  void* data = MapHuge(size);
  if (data == nullptr) return NoMemory(bytes);
  return Buffer(data, bytes, [size](void* block) { munmap(block, size); });
}

absl::StatusOr<Device::Reusable> CpuDevice::AllocateReusable(size_t bytes) {
  if (bytes == 0) return Reusable();
  if (bytes > kLargest) return NoMemory(bytes);
  if (bytes < kHugePage) {
    Buffer memory = AllocateSmall(bytes);
    if (memory.data() == nullptr) return NoMemory(bytes);
    return Reusable{std::move(memory), false};
  }
  const size_t size = MappedBytes(bytes);
  const BlockPool::Block block = reusable_->Take(size);
  if (block.data == nullptr) return NoMemory(bytes);
  const auto give = [pool = reusable_, size](void* data) { pool->Give(data, size); };
  return Reusable{Buffer(block.data, bytes, give), block.fresh};
}

absl::Status CpuDevice::Zero(void* device, size_t bytes) {
  if (bytes > 0) std::memset(device, 0, bytes);
  return absl::OkStatus();
}

absl::Status CpuDevice::CopyToHost(void* host, const void* device, size_t bytes) {
  return CopyWithin(host, device, bytes);
}

absl::Status CpuDevice::CopyFromHost(void* device, const void* host, size_t bytes) {
  return CopyWithin(device, host, bytes);
}

absl::Status CpuDevice::CopyWithin(void* to, const void* from, size_t bytes) {
  if (bytes > 0) std::memmove(to, from, bytes);
  return absl::OkStatus();
}

void* CpuDevice::ScratchBytes(size_t slot, size_t bytes) {
  if (slot >= scratch_.size()) scratch_.resize(slot + 1);
  if (scratch_[slot].bytes() < bytes) {
    scratch_[slot] = Buffer();
    absl::StatusOr<Buffer> grown = Allocate(bytes + bytes / 2);
    if (!grown.ok()) throw std::bad_alloc();
    scratch_[slot] = *std::move(grown);
  }
  return scratch_[slot].data();
}

}  // namespace tvq
