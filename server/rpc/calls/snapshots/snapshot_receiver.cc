#include "server/rpc/calls/snapshots/snapshot_receiver.h"

#include <span>

#include "absl/strings/str_cat.h"
#include "server/rpc/wire/session_convert.h"

namespace tvq {

absl::Status SnapshotReceiver::Add(const std::string& chunk, Clock::time_point now) {
  if (auto status = CheckChunk(chunk); !status.ok()) return status;
  if (auto status = Keep(chunk.size()); !status.ok()) return status;
  bytes_ += static_cast<int64_t>(chunk.size());
  if (now - began_ > patience_ + std::chrono::seconds(bytes_ / kSlowestSender)) {
    return absl::DeadlineExceededError(
        absl::StrCat("chunk: the snapshot comes too slowly, must come at ", kSlowestSender,
                     " bytes a second or more"));
  }
  absl::Status taken = upload_->Add(std::span<const char>(chunk));
  if (absl::IsResourceExhausted(taken)) busy_ = !upload_->too_large();
  return taken;
}

absl::Status SnapshotReceiver::Keep(size_t bytes) {
  if (share_.Add(bytes)) return absl::OkStatus();
  busy_ = true;
  return absl::ResourceExhaustedError(
      "chunk: too many snapshots are being sent at once; try again");
}

}  // namespace tvq
