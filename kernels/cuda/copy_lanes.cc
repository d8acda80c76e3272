#include "kernels/cuda/copy_lanes.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <type_traits>
#include <utility>

#include "kernels/cuda/cuda_status.h"

namespace tvq::TVQ_CUDA {

class CopyLanes::Lane {
 public:
  Lane() = default;
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;
  ~Lane() {
    if (stream_ != nullptr) cudaStreamSynchronize(stream_);
    for (const Piece& piece : pieces_) {
      if (piece.travelled != nullptr) cudaEventDestroy(piece.travelled);
      if (piece.memory != nullptr) cudaFreeHost(piece.memory);
    }
    if (computed_ != nullptr) cudaEventDestroy(computed_);
    if (stream_ != nullptr) cudaStreamDestroy(stream_);
  }

  absl::Status Create() {
    absl::Status status =
        ToStatus(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "a stream for copies");
    if (status.ok()) status = CreateEvent(&computed_);
    for (Piece& piece : pieces_) {
      if (status.ok()) status = CreateEvent(&piece.travelled);
      if (status.ok())
        status = ToStatus(cudaMallocHost(&piece.memory, kPieceBytes), "pinned memory");
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
        absl::Status status = Send(i, cudaMemcpyDeviceToHost, device, bytes);
        if (!status.ok()) return status;
      }
      if (i == 0) continue;
      const Piece& arrived = pieces_[(i - 1) % 2];
      absl::Status status = Wait(arrived);
      if (!status.ok()) return status;
      std::memcpy(host + (i - 1) * kPieceBytes, arrived.memory, Size(i - 1, bytes));
    }
    return absl::OkStatus();
  }

  absl::Status FromHost(std::byte* device, const std::byte* host, size_t bytes) {
    for (size_t i = 0; i < Pieces(bytes); ++i) {
      const Piece& piece = pieces_[i % 2];
      absl::Status status;
      if (i >= 2) status = Wait(piece);
      if (!status.ok()) return status;
      std::memcpy(piece.memory, host + i * kPieceBytes, Size(i, bytes));
      status = Send(i, cudaMemcpyHostToDevice, device, bytes);
      if (!status.ok()) return status;
    }
    return ToStatus(cudaStreamSynchronize(stream_), "a copy to the GPU");
  }

 private:
  struct Piece {
    void* memory = nullptr;  // pinned, kPieceBytes
    cudaEvent_t travelled = nullptr;
  };

  static absl::Status CreateEvent(cudaEvent_t* event) {
    return ToStatus(cudaEventCreateWithFlags(event, cudaEventDisableTiming), "an event");
  }
  static size_t Pieces(size_t bytes) { return (bytes + kPieceBytes - 1) / kPieceBytes; }
  static size_t Size(size_t i, size_t bytes) {
    return std::min(kPieceBytes, bytes - i * kPieceBytes);
  }

  // Piece i of `device`'s `bytes`, from or to its pinned memory.
  template <typename Byte>
  absl::Status Send(size_t i, cudaMemcpyKind kind, Byte* device, size_t bytes) {
    const Piece& piece = pieces_[i % 2];
    Byte* part = device + i * kPieceBytes;
    cudaError_t error = cudaSuccess;
    if constexpr (std::is_const_v<Byte>) {
      error = cudaMemcpyAsync(piece.memory, part, Size(i, bytes), kind, stream_);
    } else {
      error = cudaMemcpyAsync(part, piece.memory, Size(i, bytes), kind, stream_);
    }
    if (error == cudaSuccess) error = cudaEventRecord(piece.travelled, stream_);
    return ToStatus(error, "a copy");
  }
  static absl::Status Wait(const Piece& piece) {
    return ToStatus(cudaEventSynchronize(piece.travelled), "a copy");
  }

  cudaStream_t stream_ = nullptr;
  cudaEvent_t computed_ = nullptr;
  std::array<Piece, 2> pieces_;
};

CopyLanes::CopyLanes(cudaStream_t compute) : compute_(compute) {}
CopyLanes::~CopyLanes() = default;

absl::StatusOr<std::unique_ptr<CopyLanes::Lane>> CopyLanes::Take() {
  {
    const std::lock_guard lock(mutex_);
    if (!waiting_.empty()) {
      std::unique_ptr<Lane> lane = std::move(waiting_.back());
      waiting_.pop_back();
      return lane;
    }
  }
  auto lane = std::make_unique<Lane>();
  const absl::Status status = lane->Create();
  if (!status.ok()) return status;
  return lane;
}

// A lane on which a copy failed is not used again.
template <typename Work>
absl::Status CopyLanes::Copy(const Work& work) {
  absl::StatusOr<std::unique_ptr<Lane>> lane = Take();
  if (!lane.ok()) return lane.status();
  absl::Status status = (*lane)->Follow(compute_);
  if (status.ok()) status = work(**lane);
  if (!status.ok()) return status;
  const std::lock_guard lock(mutex_);
  waiting_.push_back(*std::move(lane));
  return absl::OkStatus();
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
