#include "server/rpc/snapshot_receiver.h"

#include <span>

#include "server/rpc/session_convert.h"

namespace tvq {

absl::Status SnapshotReceiver::Add(const std::string& chunk) {
  if (auto status = CheckChunk(chunk); !status.ok()) return status;
  if (!quota_->TryTake(chunk.size())) {
    busy_ = true;
    return absl::ResourceExhaustedError(
        "chunk: too many snapshots are being sent at once; try again");
  }
  bytes_ += chunk.size();
  return upload_->Add(std::span<const char>(chunk));
}

}  // namespace tvq
