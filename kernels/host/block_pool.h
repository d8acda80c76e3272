// Large blocks of a device's memory, kept when they are freed and handed out again.
#ifndef TVQ_KERNELS_HOST_BLOCK_POOL_H_
#define TVQ_KERNELS_HOST_BLOCK_POOL_H_

#include <cstddef>
#include <functional>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

namespace tvq {

// Where blocks come from. Any thread.
struct BlockSource {
  std::function<void*(size_t size)> map;  // null when there is no memory
  std::function<void(void* data, size_t size)> unmap;
  // Told when a block begins to wait, and when it is handed out again or unmapped; may be empty.
  std::function<void(void* data, size_t size)> rest, wake;
};

// Fresh memory costs far more than the copy that goes into it: the system finds and zeroes each
// page, and under a hypervisor the host may have to as well; a GPU's allocator waits for all its
// work. A freed block therefore waits for the next one of its size.
//
// Blocks in use and kept ones together never take more than the most that was in use at one time:
// where another size is wanted, kept blocks make room. Any thread.
class BlockPool {
 public:
  struct Block {
    void* data = nullptr;  // null: there is no memory
    bool fresh = false;    // as the source gives it; otherwise it holds anything
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
  mutable std::mutex mutex_;
  std::map<size_t, std::vector<void*>> kept_;  // by size; latest last
};

}  // namespace tvq

#endif  // TVQ_KERNELS_HOST_BLOCK_POOL_H_
