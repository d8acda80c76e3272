// Host memory in huge pages.
#ifndef TVQ_KERNELS_CPU_HUGE_PAGES_H_
#define TVQ_KERNELS_CPU_HUGE_PAGES_H_

#include <cstddef>

#include "kernels/host/block_pool.h"

namespace tvq {

inline constexpr size_t kHugePage = size_t{2} << 20;

// Maps fresh pages, which are zero, from a huge page's start on; `size` is a multiple of the page
// size. The last page is huge only if all of it was asked for, so that a block takes no more memory
// than it says. Null when there is no memory. Freed by munmap.
void* MapHuge(size_t size);

// Blocks of MapHuge. While they wait they are also the system's to take when it runs short
// (MADV_FREE), and AddressSanitizer reports whoever touches one.
BlockSource HugePageSource();

}  // namespace tvq

#endif  // TVQ_KERNELS_CPU_HUGE_PAGES_H_
