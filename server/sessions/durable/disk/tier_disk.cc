#include "server/sessions/durable/disk/tier_disk.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/quoted.h"
#include "base/refusal.h"
#include "server/sessions/record/session_id.h"

namespace tvq {
namespace {

absl::Status CheckId(const std::string& id) {
  if (IsSessionId(id)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("session id is ", Quoted(id), ", must be 32 hexadecimal digits"));
}

std::string ParentOf(const std::string& directory) {
  const std::string parent =
      std::filesystem::absolute(directory + "/.").parent_path().parent_path();
  return parent.empty() ? "/" : parent;
}

}  // namespace

DiskTier::Busy::Busy(DiskTier* tier, std::string id) : tier_(tier), id_(std::move(id)) {
  const MutexLock lock(&tier_->mutex_);
  tier_->not_busy_.Await(&tier_->mutex_, [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(tier_->mutex_) {
    return !tier_->busy_.contains(id_);
  });
  tier_->busy_.insert(id_);
}

DiskTier::Busy::~Busy() {
  const MutexLock lock(&tier_->mutex_);
  tier_->busy_.erase(id_);
  tier_->not_busy_.Notify();
}

SessionRecord DiskTier::Persisted(SessionRecord record) const {
  record.persisted_version = record.version;
  if (const auto use = uses_.find(record.id); use != uses_.end()) {
    record.last_used = std::max(record.last_used, use->second);
  }
  return record;
}

DiskTier::DiskTier(std::string directory, int64_t budget, std::unique_ptr<DiskFiles> files,
                   std::unique_ptr<FileLock> lock)
    : directory_(std::move(directory)),
      budget_(budget),
      files_(std::move(files)),
      lock_(std::move(lock)) {}

absl::StatusOr<std::unique_ptr<DiskTier>> DiskTier::Open(const std::string& directory,
                                                         int64_t budget,
                                                         std::unique_ptr<DiskFiles> files) {
  std::error_code error;
  const bool existed = std::filesystem::exists(directory, error);
  if (absl::Status s = files->MakeDirectory(directory); !s.ok()) return s;
  // Also of a directory that is there: a start that came no further may have made it. Another
  // program may have made it where this process must not look.
  absl::Status synced = files->SyncDirectory(ParentOf(directory));
  if (!synced.ok() && !existed) return synced;
  auto lock = FileLock::Take(directory + "/lock");
  if (!lock.ok()) return lock.status();
  std::unique_ptr<DiskTier> tier(
      new DiskTier(directory, budget, std::move(files), *std::move(lock)));
  const MutexLock held(&tier->mutex_);
  if (absl::Status s = tier->Scan(); !s.ok()) return s;
  tier->free_ = tier->files_->FreeBytes(directory);
  if (budget == 0 && tier->free_) tier->budget_ = BudgetWithin(tier->bytes_, *tier->free_);
  return tier;
}

std::string DiskTier::PathOf(const std::string& id, int64_t version) const {
  return absl::StrCat(FolderOf(id), "/v", version, ".snap");
}

absl::Status DiskTier::ForEach(const std::function<void(SessionRecord record)>& visit) {
  std::vector<SessionRecord> records;
  {
    const MutexLock lock(&mutex_);
    for (const auto& [id, session] : sessions_) {
      if (auto record = session.Current(id)) records.push_back(Persisted(*std::move(record)));
    }
  }
  for (SessionRecord& record : records) visit(std::move(record));
  return absl::OkStatus();
}

absl::StatusOr<SessionRecord> DiskTier::Find(const std::string& id) {
  if (absl::Status s = CheckId(id); !s.ok()) return s;
  const MutexLock lock(&mutex_);
  const auto found = sessions_.find(id);
  if (found != sessions_.end()) {
    if (auto record = found->second.Current(id)) return Persisted(*std::move(record));
  }
  return absl::NotFoundError(absl::StrCat(directory_, " has no session ", id));
}

absl::StatusOr<int64_t> DiskTier::Admit(const SessionRecord& record, int64_t version,
                                        int64_t bytes) const {
  if (!NamesVersion(record, version)) {
    return absl::InvalidArgumentError(
        absl::StrCat("version is ", version, ", must be ", record.version, " or a mark's"));
  }
  int64_t growth = bytes;
  if (const auto found = sessions_.find(record.id); found != sessions_.end()) {
    const StoredSession& session = found->second;
    const SessionRecord* newest = session.Newest();
    if (newest != nullptr && newest->version > record.version) {
      return Refused(Reason::kSessionMoved,
                     absl::StrCat("session ", record.id, " is stored at version ", newest->version,
                                  ", later than ", record.version));
    }
    // What it takes the place of, and what is not needed after that.
    const auto replaced = session.versions().find(version);
    if (replaced != session.versions().end()) growth -= replaced->second.bytes;
    const bool own = version == record.version;
    for (int64_t superseded : own ? session.SupersededBy(record) : session.Superseded()) {
      if (superseded != version) growth -= session.versions().at(superseded).bytes;
    }
  }
  if (budget_ > 0 && growth > 0 && bytes_ + reserved_ + growth > budget_) {
    return absl::ResourceExhaustedError(absl::StrCat(directory_, " holds ", bytes_ + reserved_,
                                                     " of ", budget_, " bytes, no room for ",
                                                     growth, " more"));
  }
  return growth;
}

absl::Status DiskTier::Inside(const absl::Status& status) const {
  return absl::Status(status.code(), absl::StrReplaceAll(status.message(),
                                                         {{directory_ + "/", ""},
                                                          {directory_, "the session directory"}}));
}

absl::Status DiskTier::Put(const SessionRecord& record, int64_t version, int64_t bytes,
                           const std::function<absl::Status(const ByteSink&)>& write) {
  if (absl::Status s = CheckId(record.id); !s.ok()) return s;
  const Busy busy(this, record.id);
  int64_t reserved = 0;
  Present present;
  {
    const MutexLock lock(&mutex_);
    const auto found = sessions_.find(record.id);
    if (found != sessions_.end()) {
      present.session = !found->second.empty();
      present.version = found->second.versions().contains(version);
    }
    absl::StatusOr<int64_t> growth = Admit(record, version, bytes);
    if (!growth.ok()) return Inside(growth.status());
    // A restart needs this version with its own record until the new record's state is stored.
    if (present.version && version != record.version &&
        found->second.versions().at(version).record.version == version) {
      return absl::OkStatus();
    }
    reserved = std::max<int64_t>(*growth, 0);
    reserved_ += reserved;
  }
  const absl::Status written = WriteFile(record.id, version, present, bytes, write);
  SessionRecord known = record;
  if (version != record.version) KeepMarksAt(known, version);
  {
    const MutexLock lock(&mutex_);
    reserved_ -= reserved;
    // NOT_FOUND would read as if there were no such session. It is not stored anew: the states of
    // its marks may be nowhere else, and are kept while this fails.
    if (absl::IsNotFound(written)) {
      return Inside(absl::UnavailableError(absl::StrCat(
          written.message(), "; was the folder removed? Put it back, or delete the session")));
    }
    if (!written.ok()) return Inside(written);
    StoredSession& session = sessions_[record.id];
    const auto replaced = session.versions().find(version);
    bytes_ += bytes - (replaced != session.versions().end() ? replaced->second.bytes : 0);
    session.Add(version, std::move(known), bytes);
  }
  DropSuperseded(record.id);
  return absl::OkStatus();
}

void DiskTier::Forget(const std::string& id) {
  if (const auto found = sessions_.find(id); found != sessions_.end()) {
    bytes_ -= found->second.bytes();
    sessions_.erase(found);
  }
  uses_.erase(id);
}

absl::Status DiskTier::WriteFile(const std::string& id, int64_t version, Present present,
                                 int64_t bytes,
                                 const std::function<absl::Status(const ByteSink&)>& write) {
  const std::string folder = FolderOf(id);
  absl::Status s;
  if (!present.session) {
    s = files_->MakeDirectory(folder);
    if (s.ok()) s = files_->SyncDirectory(directory_);
  }
  const std::string path = PathOf(id, version), temporary = path + ".tmp";
  if (s.ok()) s = WriteTemporary(temporary, bytes, write);
  bool in_place = false;
  if (s.ok()) {
    s = files_->Rename(temporary, path);
    in_place = s.ok();
  }
  if (s.ok()) s = files_->SyncDirectory(folder);
  if (s.ok()) return s;
  // What can be cleaned up now is; the next start does the rest. A version that could not be stored
  // must not be found then, but one that was stored before is kept, if with a newer record.
  if (!in_place) {
    (void)files_->Remove(temporary);
  } else if (!present.version) {
    (void)files_->Remove(path);
  }
  (void)files_->RemoveDirectory(folder);  // refused unless it is empty
  return s;
}

absl::Status DiskTier::WriteTemporary(const std::string& path, int64_t bytes,
                                      const std::function<absl::Status(const ByteSink&)>& write) {
  absl::StatusOr<int> file = files_->Create(path);
  if (!file.ok()) return file.status();
  absl::Cleanup closer = [&] { close(*file); };
  int64_t left = bytes;
  absl::Status s = write([&](std::span<const std::byte> piece) {
    left -= static_cast<int64_t>(piece.size());
    return left < 0 ? absl::OkStatus() : files_->Write(*file, path, piece);
  });
  if (!s.ok()) return s;
  if (left != 0) {
    return absl::InternalError(
        absl::StrCat(path, ": ", bytes - left, " bytes were written, must be ", bytes));
  }
  return files_->Sync(*file, path);
}

void DiskTier::DropSuperseded(const std::string& id) {
  std::vector<int64_t> superseded;
  {
    const MutexLock lock(&mutex_);
    superseded = sessions_[id].Superseded();
  }
  for (int64_t version : superseded) {
    const absl::Status removed = files_->Remove(PathOf(id, version));
    if (!removed.ok() && !absl::IsNotFound(removed)) continue;  // the next Put tries again
    const MutexLock lock(&mutex_);
    StoredSession& session = sessions_[id];
    bytes_ -= session.versions().at(version).bytes;
    session.Erase(version);
  }
}

absl::StatusOr<std::unique_ptr<ByteSource>> DiskTier::Get(const std::string& id, int64_t version) {
  if (absl::Status s = CheckId(id); !s.ok()) return s;
  const std::string path = PathOf(id, version);
  {
    const MutexLock lock(&mutex_);
    const auto found = sessions_.find(id);
    const bool known = found != sessions_.end();
    if (!known || !found->second.versions().contains(version)) {
      if (known && found->second.damaged().contains(version)) {
        return found->second.damaged().at(version).problem;
      }
      return absl::NotFoundError(absl::StrCat("there is no version ", version, " of session ", id));
    }
  }
  auto source = OpenFileSource(path);
  if (!source.ok()) return Inside(source.status());
  return source;
}

absl::Status DiskTier::Delete(const std::string& id) {
  if (absl::Status s = CheckId(id); !s.ok()) return s;
  const Busy busy(this, id);
  // The new name decides: from then on the session is gone, whatever is left of its files.
  const std::string folder = FolderOf(id), gone = folder + ".deleted";
  absl::Status s = RemoveFolder(gone);
  if (s.ok()) s = files_->Rename(folder, gone);
  const bool was_there = !absl::IsNotFound(s);
  if (s.ok()) {
    s = files_->SyncDirectory(directory_);
    if (!s.ok() && files_->Rename(gone, folder).ok()) return Inside(s);
  } else if (was_there) {
    return Inside(s);
  }
  {
    const MutexLock lock(&mutex_);
    Forget(id);
  }
  if (!was_there) return absl::OkStatus();
  (void)RemoveFolder(gone);  // the next start does the rest
  return Inside(s);
}

DiskTier::Usage DiskTier::usage() const {
  const MutexLock lock(&mutex_);
  Usage usage;
  usage.bytes = bytes_;
  usage.budget = budget_;
  usage.free = free_;
  usage.corrupt = found_corrupt_;
  usage.sessions = static_cast<int64_t>(sessions_.size());
  return usage;
}

}  // namespace tvq
