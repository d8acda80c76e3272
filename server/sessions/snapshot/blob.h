// Immutable bytes in host memory.
#ifndef TVQ_SERVER_SESSIONS_SNAPSHOT_BLOB_H_
#define TVQ_SERVER_SESSIONS_SNAPSHOT_BLOB_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/sessions/snapshot/byte_stream.h"

namespace tvq {

// Bytes in pieces of at most 4 MiB, so that a large one needs no large block of memory and can be
// made while its size is not known. Any number of threads may read one.
class Blob {
 public:
  static constexpr int64_t kPieceBytes = int64_t{4} << 20;

  int64_t size() const { return size_; }
  // Memory held: a little more than the size where the writer did not know the size.
  int64_t memory_bytes() const { return memory_bytes_; }

  absl::Status WriteTo(const ByteSink& sink) const;

 private:
  friend class BlobWriter;
  friend class BlobSource;
  struct Piece {
    std::unique_ptr<std::byte[]> data;
    int64_t used = 0;
    int64_t capacity = 0;
  };

  std::vector<Piece> pieces_;
  int64_t size_ = 0;
  int64_t memory_bytes_ = 0;
};

// The blob's bytes from `offset`, which is at most its size. Keeps the blob.
std::unique_ptr<ByteSource> NewSource(std::shared_ptr<const Blob> blob, int64_t offset = 0);

// The next `bytes` bytes of the source, as they are.
absl::StatusOr<std::shared_ptr<const Blob>> ReadBlob(ByteSource& source, int64_t bytes);

// One thread at a time.
class BlobWriter {
 public:
  // `expected` bytes will come, 0 if that is not known; memory is taken as they come, so a wrong
  // number from outside does no harm.
  explicit BlobWriter(int64_t expected = 0) : expected_(expected) {}

  // RESOURCE_EXHAUSTED without memory.
  absl::Status Add(std::span<const std::byte> bytes);
  // Add, as a sink that lives as long as this.
  ByteSink sink();

  int64_t size() const { return blob_->size_; }

  // Once; the last call.
  std::shared_ptr<const Blob> Finish() { return std::move(blob_); }

 private:
  bool NewPiece();

  const int64_t expected_;
  std::shared_ptr<Blob> blob_ = std::make_shared<Blob>();
};

}  // namespace tvq

#endif  // TVQ_SERVER_SESSIONS_SNAPSHOT_BLOB_H_
