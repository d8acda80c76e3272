// Copies between host and GPU while the GPU computes.
#ifndef TVQ_KERNELS_CUDA_COPY_LANES_H_
#define TVQ_KERNELS_CUDA_COPY_LANES_H_

#include <cstddef>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "base/mutex.h"
#include "kernels/cuda/platform.h"

namespace tvq::TVQ_CUDA {

// A copy starts when everything is done that was queued on the computing stream before it. It
// disturbs what is queued later only by its share of the bus. Each copy in progress has a lane: a
// stream and two pieces of pinned memory, one of which the host fills or empties while the other is
// copied. So a session of 300 MB does not hold up the few bytes of a decode step, which travel as
// OrderedCopies. Lanes are made once, since pinning memory may wait for the GPU. If there are more
// copies than lanes, they wait for one another.
//
// Functions may be called from any thread; until a call returns nothing else may use the memory.
class CopyLanes {
 public:
  explicit CopyLanes(cudaStream_t compute);
  ~CopyLanes();
  CopyLanes(const CopyLanes&) = delete;
  CopyLanes& operator=(const CopyLanes&) = delete;

  // Must be called before any copy.
  absl::Status Create();

  // Copies are complete when these return.
  absl::Status ToHost(void* host, const void* device, size_t bytes);
  absl::Status FromHost(void* device, const void* host, size_t bytes);

  static constexpr size_t kPieceBytes = size_t{1} << 20;
  static constexpr size_t kLanes = 4;  // one each way fills the bus

 private:
  class Lane;

  template <typename Work>
  absl::Status Copy(const Work& work);
  std::unique_ptr<Lane> Take();
  void Give(std::unique_ptr<Lane> lane);

  const cudaStream_t compute_;
  Mutex mutex_;
  Changed given_;
  std::vector<std::unique_ptr<Lane>> free_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tvq::TVQ_CUDA

#endif  // TVQ_KERNELS_CUDA_COPY_LANES_H_
