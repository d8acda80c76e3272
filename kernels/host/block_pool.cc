#include "kernels/host/block_pool.h"

namespace tvq {

BlockPool::~BlockPool() {
  for (const auto& [size, blocks] : kept_) {
    for (void* data : blocks) Unmap(data, size);
  }
}

void BlockPool::Unmap(void* data, size_t size) {
  if (source_.wake) source_.wake(data, size);
  source_.unmap(data, size);
}

BlockPool::Block BlockPool::Take(size_t size) {
  std::vector<std::pair<void*, size_t>> dropped;
  {
    const MutexLock lock(&mutex_);
    if (const auto same = kept_.find(size); same != kept_.end()) {
      void* data = same->second.back();
      same->second.pop_back();
      if (same->second.empty()) kept_.erase(same);
      if (source_.wake) source_.wake(data, size);
      return {data, false};
    }
    // Drops at least as many bytes as are mapped, or else all kept blocks. So the most that was in
    // use at one time remains the bound.
    for (size_t room = 0; room < size && !kept_.empty();) {
      const auto other = kept_.begin();
      dropped.emplace_back(other->second.back(), other->first);
      room += other->first;
      other->second.pop_back();
      if (other->second.empty()) kept_.erase(other);
    }
  }
  for (const auto& [data, other_size] : dropped) Unmap(data, other_size);
  return {source_.map(size), true};
}

void BlockPool::Give(void* data, size_t size) {
  if (source_.rest) source_.rest(data, size);
  const MutexLock lock(&mutex_);
  kept_[size].push_back(data);
}

size_t BlockPool::kept_bytes() const {
  const MutexLock lock(&mutex_);
  size_t bytes = 0;
  for (const auto& [size, blocks] : kept_) bytes += size * blocks.size();
  return bytes;
}

}  // namespace tvq
