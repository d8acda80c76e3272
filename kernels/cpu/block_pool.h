// Large blocks of host memory, kept when they are freed and handed out again.
#ifndef TVQ_KERNELS_CPU_BLOCK_POOL_H_
#define TVQ_KERNELS_CPU_BLOCK_POOL_H_

#include <cstddef>
#include <map>
#include <mutex>
#include <vector>

namespace tvq {

// Fresh pages cost far more than the copy that goes into them: the system finds and zeroes each,
// and under a hypervisor the host may have to as well. A freed block therefore waits for the next
// one of its size.
//
// Blocks in use and kept ones together never take more than the most that was in use at one time:
// where another size is wanted, kept blocks make room. Kept blocks are also the system's to
// take when it runs short (MADV_FREE). AddressSanitizer reports whoever touches one. Any thread.
class BlockPool {
 public:
  struct Block {
    void* data = nullptr;  // null: there is no memory
    bool zeroed = false;   // otherwise it holds anything
  };

  BlockPool() = default;
  BlockPool(const BlockPool&) = delete;
  BlockPool& operator=(const BlockPool&) = delete;
  ~BlockPool();

  // `size` is a multiple of the page size.
  Block Take(size_t size);
  // Gives back what Take gave for that size.
  void Give(void* data, size_t size);

  size_t kept_bytes() const;

 private:
  mutable std::mutex mutex_;
  std::map<size_t, std::vector<void*>> kept_;  // by size; latest last
};

inline constexpr size_t kHugePage = size_t{2} << 20;

// Maps fresh pages, which are zero, from a huge page's start on; `size` is a multiple of the page
// size. The last page is huge only if all of it was asked for, so that a block takes no more memory
// than it says. Null when there is no memory. Freed by munmap.
void* MapHuge(size_t size);

}  // namespace tvq

#endif  // TVQ_KERNELS_CPU_BLOCK_POOL_H_
