#include "server/rpc/limits/byte_quota.h"

#include "absl/strings/str_cat.h"

namespace tvq {

ByteQuota::Share::Share(Share&& other) noexcept
    : quota_(std::exchange(other.quota_, nullptr)),
      owner_(std::move(other.owner_)),
      bytes_(std::exchange(other.bytes_, 0)) {}

ByteQuota::Share& ByteQuota::Share::operator=(Share&& other) noexcept {
  if (this == &other) return *this;
  Give();
  quota_ = std::exchange(other.quota_, nullptr);
  owner_ = std::move(other.owner_);
  bytes_ = std::exchange(other.bytes_, 0);
  return *this;
}

absl::Status ByteQuota::Share::Add(int64_t bytes) {
  absl::Status taken = quota_->Take(owner_, bytes_, bytes);
  if (taken.ok()) bytes_ += bytes;
  return taken;
}

void ByteQuota::Share::Give() {
  if (bytes_ > 0) quota_->Give(owner_, bytes_);
  bytes_ = 0;
}

absl::Status ByteQuota::Take(const std::string& owner, int64_t has, int64_t more) {
  if (more == 0) return absl::OkStatus();
  const MutexLock lock(&mutex_);
  const auto it = owners_.find(owner);
  const int64_t mine = it == owners_.end() ? 0 : it->second;
  // An owner's only share may grow as if it had begun with all of it.
  const bool fair = mine == has ? fair_.MayBegin(mine + more, taken_ - mine)
                                : fair_.MayHave(mine + more, taken_ + more);
  if (!fair) {
    const bool full = more > total_ - taken_;
    return Refused(
        reason_,
        absl::StrCat(what_, " take ", taken_, " ", unit_, ", ", mine,
                     " of them this key's or address's; ", more, " more would exceed ",
                     full ? "" : "its part of ", "the limit of ", total_,
                     mine > 0 ? "; try again when some of its own have ended" : "; try again"));
  }
  taken_ += more;
  owners_[owner] = mine + more;
  return absl::OkStatus();
}

void ByteQuota::Give(const std::string& owner, int64_t bytes) {
  const MutexLock lock(&mutex_);
  taken_ -= bytes;
  const auto it = owners_.find(owner);
  it->second -= bytes;
  if (it->second == 0) owners_.erase(it);
}

}  // namespace tvq
