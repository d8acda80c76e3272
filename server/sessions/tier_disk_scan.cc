// What the disk tier does when it starts: it finds the sessions, and clears up after an end in the
// midst of a call.
#include <algorithm>
#include <filesystem>
#include <optional>
#include <system_error>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "server/sessions/session_id.h"
#include "server/sessions/tier_disk.h"

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
    const auto size = entry->file_size(no_size);
    found.push_back({entry->path().filename().string(), no_size ? 0 : static_cast<int64_t>(size)});
  }
  if (error) return FileError(error.value(), "list", path);
  std::sort(found.begin(), found.end(),
            [](const Found& a, const Found& b) { return a.name < b.name; });
  return found;
}

bool TakeSuffix(std::string& name, std::string_view suffix) {
  if (!name.ends_with(suffix)) return false;
  name.resize(name.size() - suffix.size());
  return true;
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
  absl::StatusOr<std::vector<Found>> found = List(directory_);
  if (!found.ok()) return found.status();
  for (const Found& file : *found) {
    std::string name = file.name;
    if (TakeSuffix(name, kDeleted) && IsSessionId(name)) {
      absl::Status s = RemoveFolder(directory_ + "/" + file.name);
      if (!s.ok()) problems_.push_back(std::string(s.message()));
    } else if (IsSessionId(file.name)) {
      absl::StatusOr<Entry> entry = ScanSession(file.name);
      if (!entry.ok()) return entry.status();
      const std::lock_guard lock(mutex_);
      if (entry->stored.versions().empty() && entry->corrupt.empty()) continue;
      sessions_.emplace(file.name, *std::move(entry));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<DiskTier::Entry> DiskTier::ScanSession(const std::string& id) {
  const std::string folder = FolderOf(id);
  absl::StatusOr<std::vector<Found>> found = List(folder);
  if (!found.ok()) return found.status();
  Entry entry;
  const auto remove = [&](const std::string& path) {
    absl::Status s = files_->Remove(path);
    if (!s.ok()) problems_.push_back(std::string(s.message()));
  };
  int64_t bytes = 0;
  for (const Found& file : *found) {
    const std::string path = folder + "/" + file.name;
    std::string name = file.name;
    if (TakeSuffix(name, kTemporary)) {
      remove(path);
      continue;
    }
    const bool set_aside = TakeSuffix(name, kCorrupt);
    const std::optional<int64_t> version = VersionOf(name);
    if (!version) continue;  // somebody else's
    bytes += file.bytes;
    if (set_aside) {
      entry.corrupt.insert(*version);
      problems_.push_back(path + ": was found corrupt before");
      continue;
    }
    absl::StatusOr<SnapshotInfo> info = ScanFile(id, *version, file.bytes);
    if (info.ok()) {
      entry.stored.versions()[*version] = {std::move(info->record), file.bytes};
    } else {
      entry.corrupt.insert(*version);
      NoteCorrupt(path, info.status());
    }
  }

  // A mark's state that was stored before the session's own, which never came: nobody was told that
  // the session is saved.
  std::vector<int64_t> unneeded = entry.stored.Superseded();
  if (entry.stored.Newest() == nullptr && entry.corrupt.empty()) {
    for (const auto& [version, stored] : entry.stored.versions()) unneeded.push_back(version);
  }
  for (int64_t version : unneeded) {
    remove(PathOf(id, version));
    bytes -= entry.stored.versions()[version].bytes;
    entry.stored.versions().erase(version);
  }
  if (entry.stored.versions().empty() && entry.corrupt.empty()) {
    (void)files_->RemoveDirectory(folder);  // refused if somebody else's files are there
  }
  const std::lock_guard lock(mutex_);
  bytes_ += bytes;
  return entry;
}

absl::StatusOr<SnapshotInfo> DiskTier::ScanFile(const std::string& id, int64_t version,
                                                int64_t bytes) {
  absl::StatusOr<std::unique_ptr<ByteSource>> source = OpenFileSource(PathOf(id, version));
  if (!source.ok()) return source.status();
  absl::StatusOr<SnapshotInfo> info = ReadSnapshotInfo(source->get());
  if (!info.ok()) return info.status();
  if (info->total_bytes != bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("has ", bytes, " bytes, must have ", info->total_bytes));
  }
  if (info->record.id != id || info->version != version) {
    return absl::InvalidArgumentError(
        absl::StrCat("holds version ", info->version, " of session ", info->record.id));
  }
  return info;
}

// Only what is damaged for certain gets another name: a file of a later format, or one that the
// system cannot read now, may be good tomorrow.
void DiskTier::NoteCorrupt(const std::string& path, const absl::Status& problem) {
  problems_.push_back(absl::StrCat(path, ": ", problem.message()));
  if (!absl::IsInvalidArgument(problem)) return;
  absl::Status s = files_->Rename(path, absl::StrCat(path, std::string(kCorrupt)));
  if (!s.ok()) problems_.push_back(std::string(s.message()));
}

absl::Status DiskTier::RemoveFolder(const std::string& path) {
  absl::StatusOr<std::vector<Found>> found = List(path);
  if (absl::IsNotFound(found.status())) return absl::OkStatus();
  if (!found.ok()) return found.status();
  for (const Found& file : *found) {
    if (absl::Status s = files_->Remove(path + "/" + file.name); !s.ok()) return s;
  }
  return files_->RemoveDirectory(path);
}

}  // namespace tvq
