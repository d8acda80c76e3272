#ifndef TVQ_SERVER_RPC_CALLS_SNAPSHOTS_SNAPSHOT_RECEIVER_H_
#define TVQ_SERVER_RPC_CALLS_SNAPSHOTS_SNAPSHOT_RECEIVER_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "server/rpc/limits/byte_quota.h"
#include "server/sessions/session_store.h"

namespace tvq {

// How fast a client must send at least, in bytes a second, in the mean of any time that is as long
// as the patience for one chunk.
inline constexpr int64_t kSlowestSender = int64_t{16} << 10;

// A snapshot on its way in, as a client sends it, and its part of the quota. One thread at a time.
class SnapshotReceiver {
 public:
  using Clock = std::chrono::steady_clock;

  // `share`, of the quota, has nothing yet. `patience`: for one chunk.
  SnapshotReceiver(SessionStore* store, ByteQuota::Share share, std::chrono::milliseconds patience)
      : share_(std::move(share)),
        upload_(store->NewUpload()),
        patience_(patience),
        left_(patience) {}

  // Takes a chunk that was `waited` for. INVALID_ARGUMENT if it is too long. DEADLINE_EXCEEDED
  // if the latest chunks came too slowly. RESOURCE_EXHAUSTED if the snapshot is larger than
  // any that this server takes, if others are sending too much already, or if there is no
  // memory.
  absl::Status Add(const std::string& chunk, Clock::duration waited);

  // Counts what the call keeps beside the snapshot. RESOURCE_EXHAUSTED as for a chunk.
  absl::Status Keep(size_t bytes);

  bool empty() const { return empty_; }

  // What was received. Once.
  std::unique_ptr<SnapshotUpload> Take() { return std::move(upload_); }

 private:
  ByteQuota::Share share_;
  std::unique_ptr<SnapshotUpload> upload_;
  const Clock::duration patience_;
  // How long the next bytes may take. What comes adds to it, up to patience_.
  Clock::duration left_;
  bool empty_ = true;
};

}  // namespace tvq

#endif  // TVQ_SERVER_RPC_CALLS_SNAPSHOTS_SNAPSHOT_RECEIVER_H_
