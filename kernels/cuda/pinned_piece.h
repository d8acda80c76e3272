// Host memory that the GPU reads and writes by itself, a piece of a copy at a time.
#ifndef TVQ_KERNELS_CUDA_PINNED_PIECE_H_
#define TVQ_KERNELS_CUDA_PINNED_PIECE_H_

#include <cstddef>

#include "absl/status/status.h"
#include "kernels/cuda/cuda_status.h"
#include "kernels/cuda/platform.h"

namespace tvq::TVQ_CUDA {

// `bytes` of pinned memory and an event that tells when the last copy from or to it was done. To be
// used by one thread at a time.
class PinnedPiece {
 public:
  PinnedPiece() = default;
  PinnedPiece(const PinnedPiece&) = delete;
  PinnedPiece& operator=(const PinnedPiece&) = delete;
  ~PinnedPiece() {
    if (travelled_ != nullptr) cudaEventDestroy(travelled_);
    if (memory_ != nullptr) cudaFreeHost(memory_);
  }

  absl::Status Create(size_t bytes) {
    const absl::Status status = ToStatus(
        cudaEventCreateWithFlags(&travelled_, cudaEventDisableTiming), "an event for copies");
    return status.ok() ? ToStatus(cudaMallocHost(&memory_, bytes), "pinned memory") : status;
  }

  void* memory() const { return memory_; }

  // Queues a copy of the first `bytes` on the stream, behind what is queued there.
  absl::Status SendTo(void* device, size_t bytes, cudaStream_t stream) {
    return Queued(cudaMemcpyAsync(device, memory_, bytes, cudaMemcpyHostToDevice, stream), stream);
  }
  absl::Status FetchFrom(const void* device, size_t bytes, cudaStream_t stream) {
    return Queued(cudaMemcpyAsync(memory_, device, bytes, cudaMemcpyDeviceToHost, stream), stream);
  }
  // Waits until the copy that was queued last has arrived.
  absl::Status Wait() { return ToStatus(cudaEventSynchronize(travelled_), "a copy"); }

 private:
  absl::Status Queued(cudaError_t error, cudaStream_t stream) {
    if (error == cudaSuccess) error = cudaEventRecord(travelled_, stream);
    return ToStatus(error, "a copy");
  }

  void* memory_ = nullptr;
  cudaEvent_t travelled_ = nullptr;
};

}  // namespace tvq::TVQ_CUDA

#endif  // TVQ_KERNELS_CUDA_PINNED_PIECE_H_
