// Host memory in huge pages.
#ifndef TVQ_KERNELS_CPU_HUGE_PAGES_H_
#define TVQ_KERNELS_CPU_HUGE_PAGES_H_

#include <cstddef>
#include <memory>

#include "kernels/device/memory.h"
#include "kernels/host/block_pool.h"

namespace tvq {

inline constexpr size_t kHugePage = size_t{2} << 20;

// Maps fresh pages, which are zero and start where a huge page can; `size` is a multiple of the
// page size. The last page is huge only if all of it was asked for, so that a block takes no more
// memory than its size. Null when there is no memory. Freed by munmap.
void* MapHuge(size_t size);

// A source of blocks from MapHuge. While a block is kept, the system may take its memory when it
// runs short (MADV_FREE), and AddressSanitizer reports any access to it.
BlockSource HugePageSource();

// Blocks smaller than a huge page, one behind the other in mappings of MapHuge. Weights on small
// pages of their own made a small model's step 13% (bfloat16) to 25% (int8) slower. A mapping is
// freed with the last of its blocks, and no freed block is used again, so these blocks are for
// memory that lives as long as a model.
class SmallBlocks {
 public:
  // Zeroed, 64 byte aligned, of 1 to kHugePage bytes; without data when there is no memory. The
  // block may outlive this object. Any thread may call it.
  Buffer Take(size_t bytes);

 private:
  Mutex mutex_;
  std::shared_ptr<std::byte> mapping_ ABSL_GUARDED_BY(mutex_);
  std::byte* next_ ABSL_GUARDED_BY(mutex_) = nullptr;
  size_t left_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace tvq

#endif  // TVQ_KERNELS_CPU_HUGE_PAGES_H_
