#include "kernels/cuda/copy_lanes.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "kernels/cuda/cuda_status.h"
#include "kernels/cuda/pinned_piece.h"

namespace tvq::TVQ_CUDA {

class CopyLanes::Lane {
 public:
  Lane() = default;
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;
  ~Lane() {
    if (stream_ != nullptr) cudaStreamSynchronize(stream_);
    if (computed_ != nullptr) cudaEventDestroy(computed_);
    if (stream_ != nullptr) cudaStreamDestroy(stream_);
  }

  absl::Status Create() {
    absl::Status status =
        ToStatus(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "a stream for copies");
    if (status.ok()) {
      status = ToStatus(cudaEventCreateWithFlags(&computed_, cudaEventDisableTiming), "an event");
    }
    for (PinnedPiece& piece : pieces_) {
      if (status.ok()) status = piece.Create(kPieceBytes);
    }
    return status;
  }

  // What comes next on this lane waits for what is queued on `compute` now.
  absl::Status Follow(cudaStream_t compute) {
    const absl::Status status = ToStatus(cudaEventRecord(computed_, compute), "an event");
    return status.ok() ? ToStatus(cudaStreamWaitEvent(stream_, computed_, 0), "an event") : status;
  }

  absl::Status ToHost(std::byte* host, const std::byte* device, size_t bytes) {
    const size_t pieces = Pieces(bytes);
    for (size_t i = 0; i <= pieces; ++i) {
      if (i < pieces) {
        absl::Status status =
            pieces_[i % 2].FetchFrom(device + i * kPieceBytes, Size(i, bytes), stream_);
        if (!status.ok()) return status;
      }
      if (i == 0) continue;
      PinnedPiece& arrived = pieces_[(i - 1) % 2];
      if (absl::Status status = arrived.Wait(); !status.ok()) return status;
      std::memcpy(host + (i - 1) * kPieceBytes, arrived.memory(), Size(i - 1, bytes));
    }
    return absl::OkStatus();
  }

  absl::Status FromHost(std::byte* device, const std::byte* host, size_t bytes) {
    for (size_t i = 0; i < Pieces(bytes); ++i) {
      PinnedPiece& piece = pieces_[i % 2];
      absl::Status status = piece.Wait();
      if (!status.ok()) return status;
      std::memcpy(piece.memory(), host + i * kPieceBytes, Size(i, bytes));
      status = piece.SendTo(device + i * kPieceBytes, Size(i, bytes), stream_);
      if (!status.ok()) return status;
    }
    for (PinnedPiece& piece : pieces_) {
      if (absl::Status status = piece.Wait(); !status.ok()) return status;
    }
    return absl::OkStatus();
  }

 private:
  static size_t Pieces(size_t bytes) { return (bytes + kPieceBytes - 1) / kPieceBytes; }
  static size_t Size(size_t i, size_t bytes) {
    return std::min(kPieceBytes, bytes - i * kPieceBytes);
  }

  cudaStream_t stream_ = nullptr;
  cudaEvent_t computed_ = nullptr;
  std::array<PinnedPiece, 2> pieces_;
};

CopyLanes::CopyLanes(cudaStream_t compute) : compute_(compute) {}
CopyLanes::~CopyLanes() = default;

absl::Status CopyLanes::Create() {
  for (size_t i = 0; i < kLanes; ++i) {
    auto lane = std::make_unique<Lane>();
    if (absl::Status status = lane->Create(); !status.ok()) return status;
    Give(std::move(lane));
  }
  return absl::OkStatus();
}

std::unique_ptr<CopyLanes::Lane> CopyLanes::Take() {
  const MutexLock lock(&mutex_);
  given_.Await(&mutex_, [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return !free_.empty(); });
  std::unique_ptr<Lane> lane = std::move(free_.back());
  free_.pop_back();
  return lane;
}

void CopyLanes::Give(std::unique_ptr<Lane> lane) {
  {
    const MutexLock lock(&mutex_);
    free_.push_back(std::move(lane));
  }
  given_.NotifyOne();
}

template <typename Work>
absl::Status CopyLanes::Copy(const Work& work) {
  std::unique_ptr<Lane> lane = Take();
  absl::Status status = lane->Follow(compute_);
  if (status.ok()) status = work(*lane);
  Give(std::move(lane));
  return status;
}

absl::Status CopyLanes::ToHost(void* host, const void* device, size_t bytes) {
  return Copy([&](Lane& lane) {
    return lane.ToHost(static_cast<std::byte*>(host), static_cast<const std::byte*>(device), bytes);
  });
}

absl::Status CopyLanes::FromHost(void* device, const void* host, size_t bytes) {
  return Copy([&](Lane& lane) {
    return lane.FromHost(static_cast<std::byte*>(device), static_cast<const std::byte*>(host),
                         bytes);
  });
}

}  // namespace tvq::TVQ_CUDA
