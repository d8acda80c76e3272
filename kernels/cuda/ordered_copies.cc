#include "kernels/cuda/ordered_copies.h"

#include <algorithm>
#include <cstring>

namespace tvq::TVQ_CUDA {

absl::Status OrderedCopies::Create() {
  for (PinnedPiece& piece : pieces_) {
    if (absl::Status status = piece.Create(kPieceBytes); !status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::StatusOr<PinnedPiece*> OrderedCopies::Next() {
  PinnedPiece& piece = pieces_[next_++ % kPieces];
  if (absl::Status status = piece.Wait(); !status.ok()) return status;
  return &piece;
}

absl::Status OrderedCopies::Send(void* device, const void* host, size_t bytes) {
  for (size_t at = 0; at < bytes; at += kPieceBytes) {
    const size_t size = std::min(kPieceBytes, bytes - at);
    const absl::StatusOr<PinnedPiece*> piece = Next();
    if (!piece.ok()) return piece.status();
    std::memcpy((*piece)->memory(), static_cast<const std::byte*>(host) + at, size);
    const absl::Status status =
        (*piece)->SendTo(static_cast<std::byte*>(device) + at, size, compute_);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status OrderedCopies::Receive(void* host, const void* device, size_t bytes) {
  for (size_t at = 0; at < bytes; at += kPieceBytes) {
    const size_t size = std::min(kPieceBytes, bytes - at);
    const absl::StatusOr<PinnedPiece*> piece = Next();
    if (!piece.ok()) return piece.status();
    absl::Status status =
        (*piece)->FetchFrom(static_cast<const std::byte*>(device) + at, size, compute_);
    if (status.ok()) status = (*piece)->Wait();
    if (!status.ok()) return status;
    std::memcpy(static_cast<std::byte*>(host) + at, (*piece)->memory(), size);
  }
  return absl::OkStatus();
}

}  // namespace tvq::TVQ_CUDA
