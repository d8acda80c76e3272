#include "kernels/cpu/huge_pages.h"

#include <sanitizer/asan_interface.h>
#include <sys/mman.h>

#include <cstdint>

namespace tvq {
namespace {

constexpr size_t kLine = 64;
// Bytes of a mapping for small blocks. Pages that are not touched take no memory.
constexpr size_t kSmallBlocks = 16 * kHugePage;

}  // namespace

// With huge pages, reading weights and states causes far fewer TLB misses. The mapping is larger
// than the aligned block; what lies around the block is unmapped.
void* MapHuge(size_t size) {
  void* mapped =
      mmap(nullptr, size + kHugePage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return nullptr;
  char* start = static_cast<char*>(mapped);
  const size_t before = (kHugePage - reinterpret_cast<uintptr_t>(start) % kHugePage) % kHugePage;
  char* block = start + before;
  if (before > 0) munmap(start, before);
  if (before < kHugePage) munmap(block + size, kHugePage - before);
  madvise(block, size, MADV_HUGEPAGE);
  return block;
}

BlockSource HugePageSource() {
  return {.map = MapHuge,
          .unmap = [](void* data, size_t size) { munmap(data, size); },
          .rest =
              [](void* data, size_t size) {
                madvise(data, size, MADV_FREE);
                ASAN_POISON_MEMORY_REGION(data, size);
              },
          // Before an unmap, too: something else may be mapped there next.
          .wake = [](void* data, size_t size) { ASAN_UNPOISON_MEMORY_REGION(data, size); }};
}

// Between two blocks lies a cache line that belongs to neither: AddressSanitizer reports any access
// to it.
Buffer SmallBlocks::Take(size_t bytes) {
  const MutexLock lock(&mutex_);
  const size_t taken = (bytes + kLine - 1) / kLine * kLine + kLine;
  if (left_ < taken) {
    void* data = MapHuge(kSmallBlocks);
    if (data == nullptr) return Buffer();
    ASAN_POISON_MEMORY_REGION(data, kSmallBlocks);
    next_ = static_cast<std::byte*>(data);
    left_ = kSmallBlocks;
    mapping_ = {next_, [](std::byte* mapped) {
                  ASAN_UNPOISON_MEMORY_REGION(mapped, kSmallBlocks);
                  munmap(mapped, kSmallBlocks);
                }};
  }
  std::byte* block = next_;
  next_ += taken;
  left_ -= taken;
  ASAN_UNPOISON_MEMORY_REGION(block, bytes);
  return Buffer(block, bytes, [mapping = mapping_, bytes](void* freed) {
    ASAN_POISON_MEMORY_REGION(freed, bytes);
  });
}

}  // namespace tvq
