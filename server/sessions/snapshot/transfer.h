// Snapshots on their way between a client and the store: in as blobs, out as they are read.
#ifndef TVQ_SERVER_SESSIONS_SNAPSHOT_TRANSFER_H_
#define TVQ_SERVER_SESSIONS_SNAPSHOT_TRANSFER_H_

#include <cstdint>
#include <memory>
#include <span>

#include "server/engine/request/continuation.h"
#include "server/sessions/snapshot/blob.h"
#include "server/sessions/snapshot/snapshot.h"
#include "server/sessions/snapshot/snapshot_stream.h"

namespace tvq {

// What a snapshot may have beside its state when no limit is set: transcript, replies.
inline constexpr int64_t kSnapshotSlack = int64_t{64} << 20;

class BlobUpload : public SnapshotUpload {
 public:
  explicit BlobUpload(int64_t limit) : limit_(limit) {}

  absl::Status Add(std::span<const char> bytes) override;
  std::shared_ptr<const Blob> Finish() { return writer_.Finish(); }

 private:
  const int64_t limit_;
  BlobWriter writer_;
};

StateContent StateContentOf(const Continuation& content);
// The image of a state that nothing else holds any more: it goes with the source.
std::unique_ptr<ByteSource> NewImageSource(const ModelInfo& model, Continuation content);

// The snapshot of `head` and the state image that `image` gives; it has head.state_bytes.
absl::StatusOr<std::unique_ptr<SnapshotStream>> NewSnapshotStream(
    const SnapshotHead& head, std::unique_ptr<ByteSource> image);

}  // namespace tvq

#endif  // TVQ_SERVER_SESSIONS_SNAPSHOT_TRANSFER_H_
