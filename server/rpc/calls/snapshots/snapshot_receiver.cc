#include "server/rpc/calls/snapshots/snapshot_receiver.h"

#include <algorithm>
#include <ratio>
#include <span>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/refusal.h"
#include "server/rpc/wire/session_convert.h"

namespace tvq {

absl::Status SnapshotReceiver::Add(const std::string& chunk, Clock::duration waited) {
  if (auto status = CheckChunk(chunk); !status.ok()) return status;
  if (auto status = Keep(chunk.size()); !status.ok()) return status;
  empty_ = empty_ && chunk.empty();
  const auto bytes = static_cast<int64_t>(chunk.size());
  left_ += std::chrono::microseconds(bytes * std::micro::den / kSlowestSender) - waited;
  if (left_ < Clock::duration::zero()) {
    return Refused(Reason::kClientStalled, "chunk",
                   absl::StrCat("the snapshot came too slowly for ",
                                absl::FormatDuration(absl::FromChrono(patience_)),
                                ", must come at ", kSlowestSender, " bytes a second or more"));
  }
  left_ = std::min(left_, patience_);
  return upload_->Add(std::span<const char>(chunk));
}

absl::Status SnapshotReceiver::Keep(size_t bytes) {
  const absl::Status status = share_.Add(static_cast<int64_t>(bytes));
  if (status.ok()) return status;
  return Refused(Reason::kMemoryFull, "chunk", MessageOf(status));
}

}  // namespace tvq
