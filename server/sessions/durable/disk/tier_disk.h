// Sessions in a directory of one server.
#ifndef TVQ_SERVER_SESSIONS_DURABLE_DISK_TIER_DISK_H_
#define TVQ_SERVER_SESSIONS_DURABLE_DISK_TIER_DISK_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "server/sessions/durable/disk/disk_files.h"
#include "server/sessions/durable/durable_tier.h"
#include "server/sessions/record/stored_session.h"
#include "server/sessions/snapshot/snapshot.h"

namespace tvq {

// DIR/<id>/v<version>.snap: a snapshot each, written beside its place, synced and renamed, so that
// a file of this name is whole. What was found not to be is renamed to .corrupt and left to people.
// DIR/lock keeps a second server out.
class DiskTier : public DurableTier {
 public:
  // Makes the directory if only its last part is missing. `budget`: most bytes of files kept; 0:
  // BudgetWithin what the file system has free. While a version takes the
  // place of another, both are there. Removes what an end in the midst of a call has left.
  // FAILED_PRECONDITION if another server uses the directory.
  static absl::StatusOr<std::unique_ptr<DiskTier>> Open(
      const std::string& directory, int64_t budget,
      std::unique_ptr<DiskFiles> files = std::make_unique<DiskFiles>());

  // What Open found and left out, each naming its file.
  const std::vector<std::string>& problems() const { return problems_; }

  absl::Status ForEach(const std::function<void(SessionRecord record)>& visit) override;
  absl::StatusOr<SessionRecord> Find(const std::string& id) override;
  absl::Status Put(const SessionRecord& record, int64_t version, int64_t bytes,
                   const std::function<absl::Status(const ByteSink&)>& write) override;
  absl::StatusOr<std::unique_ptr<ByteSource>> Get(const std::string& id, int64_t version) override;
  absl::Status Delete(const std::string& id) override;
  absl::Status Touch(const std::string& id, absl::Time last_used) override;
  bool shared() const override { return false; }
  Usage usage() const override;

 private:
  // The right to change the files of one session.
  class Busy {
   public:
    Busy(DiskTier* tier, std::string id);
    ~Busy();
    Busy(const Busy&) = delete;
    Busy& operator=(const Busy&) = delete;

   private:
    DiskTier* const tier_;
    const std::string id_;
  };
  // What of a version to be written is stored already.
  struct Present {
    bool session = false;  // another version, or this one
    bool version = false;
  };

  DiskTier(std::string directory, int64_t budget, std::unique_ptr<DiskFiles> files,
           std::unique_ptr<FileLock> lock);

  std::string FolderOf(const std::string& id) const { return directory_ + "/" + id; }
  std::string PathOf(const std::string& id, int64_t version) const;

  // Of Open.
  absl::Status Scan() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  StoredSession ScanSession(const std::string& id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Adds the file of a version to what is known of its session.
  void ScanVersion(const std::string& id, int64_t version, const std::string& path, int64_t bytes,
                   bool set_aside, StoredSession& session) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // Whether the version may be written; the bytes by which the tier will have grown afterwards.
  absl::StatusOr<int64_t> Admit(const SessionRecord& record, int64_t version, int64_t bytes) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status WriteFile(const std::string& id, int64_t version, Present present, int64_t bytes,
                         const std::function<absl::Status(const ByteSink&)>& write);
  absl::Status WriteTemporary(const std::string& path, int64_t bytes,
                              const std::function<absl::Status(const ByteSink&)>& write);
  SessionRecord Persisted(SessionRecord record) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // An error as clients may see it, whom the place of the directory does not concern.
  absl::Status Inside(const absl::Status& status) const;

  // tier_disk_use.cc: when a session was used after its last Put, a file of one number beside the
  // versions.
  std::string UsePathOf(const std::string& id) const { return FolderOf(id) + "/used"; }
  void ScanUse(const std::string& id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);  // of Open

  void Forget(const std::string& id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Removes what the newest record does not name any more.
  void DropSuperseded(const std::string& id);
  // With the files in it; what has the name and is no folder, too.
  absl::Status RemoveFolder(const std::string& path);

  const std::string directory_;
  int64_t budget_;  // constant after Open; 0: no limit, where it is not known what is free
  std::optional<int64_t> free_;  // constant after Open
  const std::unique_ptr<DiskFiles> files_;
  const std::unique_ptr<FileLock> lock_;
  std::vector<std::string> problems_;  // constant after Open

  mutable Mutex mutex_;  // not held while files are read or written, but by Open
  Changed not_busy_;
  std::map<std::string, StoredSession> sessions_ ABSL_GUARDED_BY(mutex_);
  // What Touch was told, in this life or before.
  std::map<std::string, absl::Time> uses_ ABSL_GUARDED_BY(mutex_);
  std::set<std::string> busy_ ABSL_GUARDED_BY(mutex_);  // one change of a session at a time
  int64_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;           // of files, corrupt ones too
  int64_t found_corrupt_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t reserved_ ABSL_GUARDED_BY(mutex_) = 0;  // that calls are about to add
};

}  // namespace tvq

#endif  // TVQ_SERVER_SESSIONS_DURABLE_DISK_TIER_DISK_H_
