// Copies that are operations: they run on the stream that computes.
#ifndef TVQ_KERNELS_CUDA_ORDERED_COPIES_H_
#define TVQ_KERNELS_CUDA_ORDERED_COPIES_H_

#include <array>
#include <cstddef>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/cuda/pinned_piece.h"
#include "kernels/cuda/platform.h"

namespace tvq::TVQ_CUDA {

// For the few bytes that go to the GPU and come back with every step. Bytes to send are put into
// pinned memory, which has enough pieces that a step does not wait for its own copies.
//
// To be used by one thread at a time.
class OrderedCopies {
 public:
  explicit OrderedCopies(cudaStream_t compute) : compute_(compute) {}
  absl::Status Create();

  absl::Status Send(void* device, const void* host, size_t bytes);
  absl::Status Receive(void* host, const void* device, size_t bytes);

  static constexpr size_t kPieces = 4;
  static constexpr size_t kPieceBytes = size_t{256} << 10;

 private:
  // Returns the piece whose turn it is, after waiting for its last copy.
  absl::StatusOr<PinnedPiece*> Next();

  const cudaStream_t compute_;
  std::array<PinnedPiece, kPieces> pieces_;
  size_t next_ = 0;
};

}  // namespace tvq::TVQ_CUDA

#endif  // TVQ_KERNELS_CUDA_ORDERED_COPIES_H_
