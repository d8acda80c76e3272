// Places in one large block of a device's memory.
#ifndef TVQ_KERNELS_HOST_SLAB_H_
#define TVQ_KERNELS_HOST_SLAB_H_

#include <cstddef>
#include <map>
#include <optional>

#include "base/mutex.h"

namespace tvq {

// Hands out parts of [0, bytes), each at a multiple of kAlignment. If all parts have the same size,
// as many can be taken as fit in, in whatever order they come and go. With different sizes, a part
// may fit into no gap although all gaps together are large enough. Functions may be called from any
// thread.
class Slab {
 public:
  static constexpr size_t kAlignment = 64;

  explicit Slab(size_t bytes);
  Slab(const Slab&) = delete;
  Slab& operator=(const Slab&) = delete;

  // Takes a part of `size` bytes from the smallest gap that holds it, the first one of equal gaps.
  // Returns where the part begins, or nullopt if no gap holds it.
  std::optional<size_t> Take(size_t size);
  // Gives back what Take gave for that size.
  void Give(size_t begin, size_t size);

 private:
  Mutex mutex_;
  // Size of each gap by its beginning; no two gaps touch.
  std::map<size_t, size_t> gaps_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tvq

#endif  // TVQ_KERNELS_HOST_SLAB_H_
