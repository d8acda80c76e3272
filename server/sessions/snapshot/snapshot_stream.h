// Snapshots on their way between a client and the store.
#ifndef TVQ_SERVER_SESSIONS_SNAPSHOT_SNAPSHOT_STREAM_H_
#define TVQ_SERVER_SESSIONS_SNAPSHOT_SNAPSHOT_STREAM_H_

#include <cstdint>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace tvq {

// A session's snapshot in the making.
class SnapshotStream {
 public:
  virtual ~SnapshotStream() = default;
  virtual int64_t total_bytes() const = 0;
  // Memory that the stream takes from its beginning on, for it alone, beside what Next returns.
  virtual int64_t kept_bytes() const = 0;
  // The next at most `max` bytes; empty at the end. Blocks.
  virtual absl::StatusOr<std::string> Next(int64_t max) = 0;
};

// A snapshot on its way in. RESOURCE_EXHAUSTED as soon as it is larger than the limit.
class SnapshotUpload {
 public:
  virtual ~SnapshotUpload() = default;
  // kMemoryFull, and kSnapshotTooLarge for more bytes than any upload may have.
  virtual absl::Status Add(std::span<const char> bytes) = 0;
};

}  // namespace tvq

#endif  // TVQ_SERVER_SESSIONS_SNAPSHOT_SNAPSHOT_STREAM_H_
