#include "server/sessions/snapshot/blob.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/refusal.h"

namespace tvq {

absl::Status Blob::WriteTo(const ByteSink& sink) const {
  for (const Piece& piece : pieces_) {
    absl::Status s = sink({piece.data.get(), static_cast<size_t>(piece.used)});
    if (!s.ok()) return s;
  }
  return absl::OkStatus();
}

class BlobSource : public ByteSource {
 public:
  BlobSource(std::shared_ptr<const Blob> blob, int64_t offset)
      : blob_(std::move(blob)), offset_(offset) {
    while (piece_ < blob_->pieces_.size() && offset >= blob_->pieces_[piece_].used) {
      offset -= blob_->pieces_[piece_++].used;
    }
    in_piece_ = offset;
  }

  absl::Status Read(std::span<std::byte> out) override {
    if (static_cast<int64_t>(out.size()) > blob_->size() - offset_) {
      return absl::OutOfRangeError(absl::StrCat("ends at byte ", blob_->size(), ", must have ",
                                                out.size(), " more from byte ", offset_, " on"));
    }
    offset_ += static_cast<int64_t>(out.size());
    while (!out.empty()) {
      const Blob::Piece& piece = blob_->pieces_[piece_];
      const size_t n = std::min(out.size(), static_cast<size_t>(piece.used - in_piece_));
      std::memcpy(out.data(), piece.data.get() + in_piece_, n);
      out = out.subspan(n);
      in_piece_ += static_cast<int64_t>(n);
      if (in_piece_ < piece.used) continue;
      ++piece_;
      in_piece_ = 0;
    }
    return absl::OkStatus();
  }

 private:
  const std::shared_ptr<const Blob> blob_;
  int64_t offset_;
  size_t piece_ = 0;
  int64_t in_piece_ = 0;
};

std::unique_ptr<ByteSource> NewSource(std::shared_ptr<const Blob> blob, int64_t offset) {
  return std::make_unique<BlobSource>(std::move(blob), offset);
}

absl::StatusOr<std::shared_ptr<const Blob>> ReadBlob(ByteSource& source, int64_t bytes) {
  constexpr int64_t kCopyBytes = 1 << 20;
  BlobWriter writer(bytes);
  std::vector<std::byte> buffer(static_cast<size_t>(std::min(bytes, kCopyBytes)));
  for (int64_t left = bytes; left > 0;) {
    const auto next = std::span(buffer).first(static_cast<size_t>(std::min(left, kCopyBytes)));
    absl::Status status = source.Read(next);
    if (status.ok()) status = writer.Add(next);
    if (!status.ok()) return status;
    left -= static_cast<int64_t>(next.size());
  }
  return writer.Finish();
}

bool BlobWriter::NewPiece() {
  // Of unknown size: as much again as there is, so that a short blob takes little and a long one
  // few pieces.
  constexpr int64_t kSmallest = int64_t{4} << 10;
  const int64_t size = blob_->size_;
  const int64_t wanted = size < expected_ ? expected_ - size : std::max(size, kSmallest);
  Blob::Piece piece;
  piece.capacity = std::min(wanted, Blob::kPieceBytes);
  piece.data.reset(new (std::nothrow) std::byte[static_cast<size_t>(piece.capacity)]);
  if (piece.data == nullptr) return false;
  blob_->memory_bytes_ += piece.capacity;
  blob_->pieces_.push_back(std::move(piece));
  return true;
}

absl::Status BlobWriter::Add(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    std::vector<Blob::Piece>& pieces = blob_->pieces_;
    if (pieces.empty() || pieces.back().used == pieces.back().capacity) {
      if (!NewPiece()) {
        return Refused(Reason::kMemoryFull,
                       absl::StrCat("no memory for more than ", blob_->size_, " bytes"));
      }
    }
    Blob::Piece& piece = pieces.back();
    const size_t n = std::min(bytes.size(), static_cast<size_t>(piece.capacity - piece.used));
    std::memcpy(piece.data.get() + piece.used, bytes.data(), n);
    piece.used += static_cast<int64_t>(n);
    blob_->size_ += static_cast<int64_t>(n);
    bytes = bytes.subspan(n);
  }
  return absl::OkStatus();
}

ByteSink BlobWriter::sink() {
  return [this](std::span<const std::byte> bytes) { return Add(bytes); };
}

}  // namespace tvq
