// What the disk tier does when it starts: it finds the sessions, and clears up after an end in the
// midst of a call.
#include <algorithm>
#include <filesystem>
#include <optional>
#include <system_error>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "server/sessions/durable/disk/tier_disk.h"
#include "server/sessions/record/session_id.h"

namespace tvq {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kDeleted = ".deleted";
constexpr std::string_view kTemporary = ".tmp";
constexpr std::string_view kCorrupt = ".corrupt";

struct Found {
  std::string name;
  int64_t bytes = 0;
};

// Plain names, sorted; NOT_FOUND if there is no such directory.
absl::StatusOr<std::vector<Found>> List(const std::string& path) {
  std::error_code error;
  std::vector<Found> found;
  for (fs::directory_iterator entry(path, error), end; !error && entry != end;
       entry.increment(error)) {
    std::error_code no_size;  // of a directory
    const bool link = entry->is_symlink(no_size);
    const auto size = entry->file_size(no_size);
    found.push_back(
        {entry->path().filename().string(), no_size || link ? 0 : static_cast<int64_t>(size)});
  }
  if (error) return FileError(error.value(), "list", path);
  std::sort(found.begin(), found.end(),
            [](const Found& a, const Found& b) { return a.name < b.name; });
  return found;
}

// Of a session, whose folder is never a link.
absl::StatusOr<std::vector<Found>> ListFolder(const std::string& path) {
  std::error_code none;
  if (!fs::is_symlink(path, none)) return List(path);
  return absl::UnavailableError(
      absl::StrCat("cannot list ", path, ": it is a symbolic link, must be a directory"));
}

bool TakeSuffix(std::string& name, std::string_view suffix) {
  if (!name.ends_with(suffix)) return false;
  name.resize(name.size() - suffix.size());
  return true;
}

absl::StatusOr<SnapshotInfo> ReadInfo(const std::string& path) {
  absl::StatusOr<std::unique_ptr<ByteSource>> source = OpenFileSource(path);
  if (!source.ok()) return source.status();
  return ReadSnapshotInfo(source->get());
}

// Of "v12.snap"; nothing for another name.
std::optional<int64_t> VersionOf(const std::string& name) {
  int64_t version = 0;
  const bool fits = name.starts_with('v') && name.ends_with(".snap") &&
                    absl::SimpleAtoi(name.substr(1, name.size() - 6), &version);
  if (!fits || name != absl::StrCat("v", version, ".snap")) return std::nullopt;
  return version;
}

}  // namespace

absl::Status DiskTier::Scan() {
  // An end may have come between a new name and its sync. What is found here is told of as stored,
  // and what it supersedes is removed. One call for all folders: there may be ten thousand.
  if (absl::Status s = files_->SyncFileSystem(directory_); !s.ok()) return s;
  absl::StatusOr<std::vector<Found>> found = List(directory_);
  if (!found.ok()) return found.status();
  for (const Found& file : *found) {
    std::string name = file.name;
    if (TakeSuffix(name, kDeleted) && IsSessionId(name)) {
      absl::Status s = RemoveFolder(directory_ + "/" + file.name);
      if (!s.ok()) problems_.push_back(std::string(s.message()));
    } else if (IsSessionId(file.name)) {
      StoredSession session = ScanSession(file.name);
      bytes_ += session.bytes();
      if (session.empty()) continue;
      sessions_.emplace(file.name, std::move(session));
    }
  }
  return absl::OkStatus();
}

StoredSession DiskTier::ScanSession(const std::string& id) {
  const std::string folder = FolderOf(id);
  StoredSession session;
  absl::StatusOr<std::vector<Found>> found = ListFolder(folder);
  if (!found.ok()) {
    problems_.push_back(std::string(found.status().message()));
    ++found_corrupt_;
    // Of versions that are not known; the first stands for all.
    session.damaged()[1].problem = Inside(
        absl::UnavailableError(absl::StrCat("session ", id, ": ", found.status().message())));
    return session;
  }
  const auto remove = [&](const std::string& path) {
    absl::Status s = files_->Remove(path);
    if (!s.ok()) problems_.push_back(std::string(s.message()));
  };
  for (const Found& file : *found) {
    const std::string path = folder + "/" + file.name;
    std::string name = file.name;
    if (TakeSuffix(name, kTemporary)) {
      remove(path);
      continue;
    }
    const bool set_aside = TakeSuffix(name, kCorrupt);
    const std::optional<int64_t> version = VersionOf(name);
    if (!version) continue;  // not a tier's file
    ScanVersion(id, *version, path, file.bytes, set_aside, session);
  }

  // A mark's state that was stored before the session's own, which never came: no client was told
  // that the session is saved.
  std::vector<int64_t> unneeded = session.Superseded();
  if (!session.Current(id)) {
    for (const auto& [version, stored] : session.versions()) unneeded.push_back(version);
  }
  for (int64_t version : unneeded) {
    remove(PathOf(id, version));
    session.Erase(version);
  }
  if (session.empty()) {
    (void)files_->Remove(UsePathOf(id));
    (void)files_->RemoveDirectory(folder);  // refused if other files are there
  } else {
    ScanUse(id);
  }
  return session;
}

void DiskTier::ScanVersion(const std::string& id, int64_t version, const std::string& path,
                           int64_t bytes, bool set_aside, StoredSession& session) {
  absl::StatusOr<SnapshotInfo> info = ReadInfo(path);
  absl::Status problem = info.status();
  DamagedVersion damaged{.bytes = bytes};
  if (info.ok() && (info->record.id != id || info->version != version)) {
    problem = absl::InvalidArgumentError(
        absl::StrCat("holds version ", info->version, " of session ", info->record.id));
  } else if (info.ok()) {
    if (info->total_bytes != bytes) {
      problem = absl::InvalidArgumentError(
          absl::StrCat("has ", bytes, " bytes, must have ", info->total_bytes));
    } else if (set_aside) {
      problem = absl::InvalidArgumentError("was found corrupt before");
    } else {
      session.Add(version, std::move(info->record), bytes);
      return;
    }
    damaged.record = std::move(info->record);
  }
  // Only what is damaged for certain gets another name: a file of a later format, or one that the
  // system cannot read now, may be good tomorrow.
  std::string now_at = path;
  if (absl::IsInvalidArgument(problem) && !set_aside) {
    now_at += kCorrupt;
    absl::Status renamed = files_->Rename(path, now_at);
    if (!renamed.ok()) problems_.push_back(std::string(renamed.message()));
  }
  problems_.push_back(absl::StrCat(path, ": ", problem.message()));
  const auto code = absl::IsInvalidArgument(problem) ? absl::StatusCode::kDataLoss : problem.code();
  damaged.problem = Inside(absl::Status(
      code, absl::StrCat("session ", id, ", stored version ", version, ": ", problem.message())));
  if (!session.damaged().contains(version)) ++found_corrupt_;
  damaged.bytes += session.damaged()[version].bytes;  // once set aside, once more under its name
  session.damaged()[version] = std::move(damaged);
}

absl::Status DiskTier::RemoveFolder(const std::string& path) {
  std::error_code error;
  const fs::file_status status = fs::symlink_status(path, error);
  if (fs::exists(status) && !fs::is_directory(status)) return files_->Remove(path);
  absl::StatusOr<std::vector<Found>> found = List(path);
  if (absl::IsNotFound(found.status())) return absl::OkStatus();
  if (!found.ok()) return found.status();
  for (const Found& file : *found) {
    if (absl::Status s = files_->Remove(path + "/" + file.name); !s.ok()) return s;
  }
  return files_->RemoveDirectory(path);
}

}  // namespace tvq
