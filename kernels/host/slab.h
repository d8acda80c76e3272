// Places in one large block of a device's memory.
#ifndef TVQ_KERNELS_HOST_SLAB_H_
#define TVQ_KERNELS_HOST_SLAB_H_

#include <cstddef>
#include <map>
#include <mutex>
#include <optional>

namespace tvq {

// Hands out parts of [0, bytes), each at a multiple of kAlignment. Parts of one size fill it to the
// last that fits, in whatever order they come and go. Of different sizes there may be a gap that
// none of them fits, although together the gaps would hold it. Any thread.
class Slab {
 public:
  static constexpr size_t kAlignment = 64;

  explicit Slab(size_t bytes);
  Slab(const Slab&) = delete;
  Slab& operator=(const Slab&) = delete;

  // Where a part of `size` bytes begins: in the smallest gap that holds it, the first of several.
  std::optional<size_t> Take(size_t size);
  // Gives back what Take gave for that size.
  void Give(size_t begin, size_t size);

 private:
  std::mutex mutex_;
  std::map<size_t, size_t> gaps_;  // their sizes by their beginnings; none touches another
};

}  // namespace tvq

#endif  // TVQ_KERNELS_HOST_SLAB_H_
