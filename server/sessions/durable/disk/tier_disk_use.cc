// When a session was used after it was stored. The time is worth neither a copy of the state nor
// waiting for the disk: if it is lost, the session ends a little early.
#include <unistd.h>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "server/sessions/durable/disk/tier_disk.h"

namespace tvq {

absl::Status DiskTier::Touch(const std::string& id, absl::Time last_used) {
  const Busy busy(this, id);
  {
    const MutexLock lock(&mutex_);
    const auto found = sessions_.find(id);
    const auto record = found != sessions_.end() ? found->second.Current(id) : std::nullopt;
    if (!record) return absl::NotFoundError(absl::StrCat(directory_, " has no session ", id));
    if (Persisted(*record).last_used >= last_used) return absl::OkStatus();
  }
  const std::string path = UsePathOf(id), temporary = path + ".tmp";
  const std::string text = absl::StrCat(absl::ToUnixNanos(last_used), "\n");
  const absl::StatusOr<int> file = files_->Create(temporary);
  if (!file.ok()) return file.status();
  absl::Status s;
  {
    const absl::Cleanup closer = [&] { close(*file); };
    s = files_->Write(*file, temporary, std::as_bytes(std::span(text)));
  }
  if (s.ok()) s = files_->Rename(temporary, path);
  if (!s.ok()) {
    (void)files_->Remove(temporary);
    return s;
  }
  const MutexLock lock(&mutex_);
  uses_[id] = last_used;
  return absl::OkStatus();
}

void DiskTier::ScanUse(const std::string& id) {
  const absl::StatusOr<std::string> text = ReadFileStart(UsePathOf(id), 32);  // more than a number
  if (absl::IsNotFound(text.status())) return;
  if (!text.ok()) problems_.push_back(std::string(text.status().message()));
  int64_t nanos = 0;
  // It was never synced: after a loss of power it may be empty.
  if (!text.ok() || !absl::SimpleAtoi(*text, &nanos)) return;
  uses_[id] = absl::FromUnixNanos(nanos);
}

}  // namespace tvq
