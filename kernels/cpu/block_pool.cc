#include "kernels/cpu/block_pool.h"

#include <sanitizer/asan_interface.h>
#include <sys/mman.h>

#include <cstdint>
#include <utility>

namespace tvq {
namespace {

void Unmap(void* data, size_t size) {
  ASAN_UNPOISON_MEMORY_REGION(data, size);  // whatever is mapped there next
  munmap(data, size);
}

}  // namespace

// Huge pages spare the reader of weights and states most of its TLB misses. What is mapped around
// the aligned block is given back.
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

BlockPool::~BlockPool() {
  for (const auto& [size, blocks] : kept_) {
    for (void* data : blocks) Unmap(data, size);
  }
}

BlockPool::Block BlockPool::Take(size_t size) {
  std::vector<std::pair<void*, size_t>> dropped;
  {
    const std::lock_guard lock(mutex_);
    if (const auto same = kept_.find(size); same != kept_.end()) {
      void* data = same->second.back();
      same->second.pop_back();
      if (same->second.empty()) kept_.erase(same);
      ASAN_UNPOISON_MEMORY_REGION(data, size);
      return {data, false};
    }
    // Either as much is dropped as is mapped, or everything kept is: the most that was in use at
    // one time remains the bound.
    for (size_t room = 0; room < size && !kept_.empty();) {
      const auto other = kept_.begin();
      dropped.emplace_back(other->second.back(), other->first);
      room += other->first;
      other->second.pop_back();
      if (other->second.empty()) kept_.erase(other);
    }
  }
  for (const auto& [data, other_size] : dropped) Unmap(data, other_size);
  return {MapHuge(size), true};
}

void BlockPool::Give(void* data, size_t size) {
  madvise(data, size, MADV_FREE);
  ASAN_POISON_MEMORY_REGION(data, size);
  const std::lock_guard lock(mutex_);
  kept_[size].push_back(data);
}

size_t BlockPool::kept_bytes() const {
  const std::lock_guard lock(mutex_);
  size_t bytes = 0;
  for (const auto& [size, blocks] : kept_) bytes += size * blocks.size();
  return bytes;
}

}  // namespace tvq
