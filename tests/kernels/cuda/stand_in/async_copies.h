// Copies of a thread that are on their way (kernels/cuda/common/async_copy.cuh), where kernels run
// on the CPU: as late as they may be, so that what nobody waited for shows.
#ifndef TVQ_TESTS_KERNELS_CUDA_STAND_IN_ASYNC_COPIES_H_
#define TVQ_TESTS_KERNELS_CUDA_STAND_IN_ASYNC_COPIES_H_

#include <array>
#include <cstddef>

namespace tvq::cuda_stand_in {

class AsyncCopies {
 public:
  static constexpr size_t kMost = 32;  // that are on their way at once

  // As a thread begins: nothing is on its way.
  void Reset();
  // At most 16 bytes, NaN at `to` until they are waited for. What lies at `from` now is what comes;
  // where that has changed by then, a GPU may bring either, and NaN remains. False: there are
  // kMost.
  bool Start(void* to, const void* from, size_t bytes);
  // Ends a group of copies, and the next begins.
  void Close();
  // Carries out those of all groups that have ended but the last `later`.
  void Wait(int later);

 private:
  struct Copy {
    void* to;
    const void* from;
    size_t bytes;
    std::array<std::byte, 16> was;  // at `from`
    int group;
  };

  std::array<Copy, kMost> copies_{};  // in their order
  size_t count_ = 0;
  int closed_ = 0;  // groups
};

}  // namespace tvq::cuda_stand_in

#endif  // TVQ_TESTS_KERNELS_CUDA_STAND_IN_ASYNC_COPIES_H_
