#include "client/cli/atomic_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "absl/strings/str_cat.h"

namespace tvq::cli {
namespace {

absl::Status Failure(const char* what, const std::string& path) {
  return absl::ErrnoToStatus(errno, absl::StrCat("cannot ", what, " ", path));
}

}  // namespace

AtomicFile::~AtomicFile() {
  if (descriptor_ >= 0) close(descriptor_);
  if (!temporary_.empty()) unlink(temporary_.c_str());
}

absl::Status AtomicFile::Open() {
  std::string name = absl::StrCat(path_, ".XXXXXX");
  descriptor_ = mkostemp(name.data(), O_CLOEXEC);
  if (descriptor_ < 0) return Failure("write beside", path_);
  temporary_ = name;
  return absl::OkStatus();
}

absl::Status AtomicFile::Write(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(descriptor_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return Failure("write", temporary_);
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return absl::OkStatus();
}

absl::Status AtomicFile::Commit() {
  if (fsync(descriptor_) != 0) return Failure("write", temporary_);
  if (rename(temporary_.c_str(), path_.c_str()) != 0) return Failure("rename to", path_);
  temporary_.clear();
  // The new name is on disk only when its directory is.
  const std::filesystem::path parent = std::filesystem::path(path_).parent_path();
  const int directory = open(parent.empty() ? "." : parent.c_str(), O_RDONLY | O_DIRECTORY);
  if (directory < 0) return Failure("open the directory of", path_);
  const int synced = fsync(directory);
  close(directory);
  return synced == 0 ? absl::OkStatus() : Failure("write the directory of", path_);
}

}  // namespace tvq::cli
