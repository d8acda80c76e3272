// Large blocks of a device's memory, kept when they are freed and handed out again.
#ifndef TVQ_KERNELS_HOST_BLOCK_POOL_H_
#define TVQ_KERNELS_HOST_BLOCK_POOL_H_

#include <cstddef>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "base/mutex.h"

namespace tvq {

// Where blocks come from. The functions are called from any thread.
struct BlockSource {
  std::function<void*(size_t size)> map;  // null when there is no memory
  std::function<void(void* data, size_t size)> unmap;
  // `rest` is called when a freed block is kept, `wake` before it is handed out again or unmapped.
  // Both may be empty.
  std::function<void(void* data, size_t size)> rest, wake;
};

// Fresh memory costs far more than the copy that goes into it: the system finds and zeroes each
// page, under a hypervisor the host may have to do so as well, and a GPU's allocator waits for all
// work of the GPU. A freed block is therefore kept for the next request of its size.
//
// Blocks in use and kept ones together never take more than the most that was in use at one time:
// where a block of another size is wanted, kept blocks are unmapped first. Functions may be called
// from any thread.
class BlockPool {
 public:
  struct Block {
    void* data = nullptr;  // null: there is no memory
    bool fresh = false;    // true: as the source gives it; false: it may hold any bytes
  };

  explicit BlockPool(BlockSource source) : source_(std::move(source)) {}
  BlockPool(const BlockPool&) = delete;
  BlockPool& operator=(const BlockPool&) = delete;
  ~BlockPool();

  // `size` is one that the source can map.
  Block Take(size_t size);
  // Gives back what Take gave for that size.
  void Give(void* data, size_t size);

  size_t kept_bytes() const;

 private:
  void Unmap(void* data, size_t size);

  const BlockSource source_;
  mutable Mutex mutex_;
  // By size; latest last.
  std::map<size_t, std::vector<void*>> kept_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tvq

#endif  // TVQ_KERNELS_HOST_BLOCK_POOL_H_
