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
constexpr size_t kHugePage = CpuDevice::kHugePage;

size_t RoundUp(size_t bytes, size_t multiple) {
  return (bytes + multiple - 1) / multiple * multiple;
}

// What a mapping of so many bytes takes: not whole huge pages, or a session of 3.5 MB took 4.
size_t MappedBytes(size_t bytes) {
  return RoundUp(bytes, static_cast<size_t>(sysconf(_SC_PAGESIZE)));
}

// Fresh pages are zero, and huge ones spare the reader of weights most of its TLB misses. The
// block starts on a huge page; what is mapped around it is given back.
void* MapHuge(size_t size) {
  void* mapped =
      mmap(nullptr, size + kHugePage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return nullptr;
  char* start = static_cast<char*>(mapped);
  char* block = reinterpret_cast<char*>(RoundUp(reinterpret_cast<uintptr_t>(start), kHugePage));
  const size_t before = static_cast<size_t>(block - start);
  if (before > 0) munmap(start, before);
  if (before < kHugePage) munmap(block + size, kHugePage - before);
  madvise(block, size, MADV_HUGEPAGE);
  return block;
}

}  // namespace

CpuDevice::CpuDevice(const Backend* backend, int threads, bool bf16_dot, std::string description)
    : backend_(backend),
      pool_(threads),
      bf16_dot_(bf16_dot),
      description_(std::move(description)) {}

absl::StatusOr<Buffer> CpuDevice::Allocate(size_t bytes) {
  if (bytes == 0) return Buffer();
  if (bytes > PTRDIFF_MAX - 2 * kHugePage) {
    return absl::ResourceExhaustedError(absl::StrCat("cannot allocate ", bytes, " bytes"));
  }
  if (bytes >= kHugePage) {
    const size_t size = MappedBytes(bytes);
    if (void* data = MapHuge(size); data != nullptr) {
      return Buffer(data, bytes, [size](void* block) { munmap(block, size); });
    }
  } else if (void* data = std::aligned_alloc(kAlignment, RoundUp(bytes, kAlignment));
             data != nullptr) {
    std::memset(data, 0, bytes);
    return Buffer(data, bytes, [](void* block) { std::free(block); });
  }
  return absl::ResourceExhaustedError(absl::StrCat("cannot allocate ", bytes, " bytes"));
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
