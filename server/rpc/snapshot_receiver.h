#ifndef TVQ_SERVER_RPC_SNAPSHOT_RECEIVER_H_
#define TVQ_SERVER_RPC_SNAPSHOT_RECEIVER_H_

#include <cstddef>
#include <memory>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "server/sessions/session_store.h"

namespace tvq {

// Bounds the memory of all snapshots that clients are sending. Any thread.
class UploadQuota {
 public:
  explicit UploadQuota(size_t bytes) : free_(bytes) {}

  bool TryTake(size_t bytes) {
    absl::MutexLock lock(&mutex_);
    if (bytes > free_) return false;
    free_ -= bytes;
    return true;
  }
  void Give(size_t bytes) {
    absl::MutexLock lock(&mutex_);
    free_ += bytes;
  }

 private:
  absl::Mutex mutex_;
  size_t free_ ABSL_GUARDED_BY(mutex_);
};

// A snapshot on its way in, as a client sends it, and its part of the quota, which is given back by
// the destructor. One thread at a time.
class SnapshotReceiver {
 public:
  SnapshotReceiver(SessionStore* store, UploadQuota* quota)
      : quota_(quota), upload_(store->NewUpload()) {}
  ~SnapshotReceiver() { quota_->Give(bytes_); }
  SnapshotReceiver(const SnapshotReceiver&) = delete;
  SnapshotReceiver& operator=(const SnapshotReceiver&) = delete;

  // INVALID_ARGUMENT for a chunk that is too long. RESOURCE_EXHAUSTED for a snapshot that is larger
  // than any this server takes, or, then `busy` is true, when others are sending too much already.
  absl::Status Add(const std::string& chunk);

  bool empty() const { return bytes_ == 0; }
  bool busy() const { return busy_; }

  // What was received. Once.
  std::unique_ptr<SnapshotUpload> Take() { return std::move(upload_); }

 private:
  UploadQuota* const quota_;
  std::unique_ptr<SnapshotUpload> upload_;
  size_t bytes_ = 0;
  bool busy_ = false;
};

}  // namespace tvq

#endif  // TVQ_SERVER_RPC_SNAPSHOT_RECEIVER_H_
