#include "kernels/host/slab.h"

#include <iterator>

namespace tvq {
namespace {

size_t Aligned(size_t size) {
  return (size + Slab::kAlignment - 1) / Slab::kAlignment * Slab::kAlignment;
}

}  // namespace

Slab::Slab(size_t bytes) {
  if (bytes >= kAlignment) gaps_[0] = bytes / kAlignment * kAlignment;
}

std::optional<size_t> Slab::Take(size_t size) {
  size = Aligned(size);
  const MutexLock lock(&mutex_);
  auto best = gaps_.end();
  for (auto gap = gaps_.begin(); gap != gaps_.end(); ++gap) {
    if (gap->second >= size && (best == gaps_.end() || gap->second < best->second)) best = gap;
  }
  if (best == gaps_.end()) return std::nullopt;
  const auto [begin, gap_size] = *best;
  gaps_.erase(best);
  if (gap_size > size) gaps_[begin + size] = gap_size - size;
  return begin;
}

void Slab::Give(size_t begin, size_t size) {
  size = Aligned(size);
  const MutexLock lock(&mutex_);
  auto next = gaps_.lower_bound(begin);
  if (next != gaps_.end() && begin + size == next->first) {
    size += next->second;
    next = gaps_.erase(next);
  }
  if (next != gaps_.begin()) {
    const auto before = std::prev(next);
    if (before->first + before->second == begin) {
      before->second += size;
      return;
    }
  }
  gaps_[begin] = size;
}

}  // namespace tvq
