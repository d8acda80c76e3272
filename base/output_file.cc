#include "base/output_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <iostream>

#include "absl/strings/str_cat.h"

namespace tvq {
namespace {

namespace fs = std::filesystem;

// Where a path leads, also if nothing is there yet. It must not lead round in a circle.
std::string BehindLinks(fs::path path) {
  std::error_code error;
  while (fs::is_symlink(path, error)) path = path.parent_path() / fs::read_symlink(path, error);
  return path;
}

}  // namespace

OutputFile::~OutputFile() {
  if (descriptor_ >= 0) close(descriptor_);
  if (!temporary_.empty()) unlink(temporary_.c_str());
}

absl::Status OutputFile::Failure() const {
  return absl::ErrnoToStatus(errno, absl::StrCat("cannot write ", path_ == "-" ? "stdout" : path_));
}

absl::Status OutputFile::Opened(int descriptor) {
  descriptor_ = descriptor;
  return descriptor_ >= 0 ? absl::OkStatus() : Failure();
}

absl::Status OutputFile::Open() {
  // Else a file that becomes larger than the process may write ends it, and what is beside it
  // stays.
  std::signal(SIGXFSZ, SIG_IGN);
  if (path_ == "-") return Opened(fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0));
  struct stat found;
  const bool exists = stat(path_.c_str(), &found) == 0;
  if (!exists && errno != ENOENT) return Failure();
  if (exists && !S_ISREG(found.st_mode)) return Opened(open(path_.c_str(), O_WRONLY | O_CLOEXEC));
  target_ = BehindLinks(path_);
  std::string name = absl::StrCat(target_, ".XXXXXX");
  absl::Status status = Opened(mkostemp(name.data(), O_CLOEXEC));
  if (!status.ok()) return status;
  temporary_ = name;
  if (readers_ == Readers::kOwner) return absl::OkStatus();
  const mode_t mask = umask(0);
  umask(mask);
  return fchmod(descriptor_, 0666 & ~mask) == 0 ? absl::OkStatus() : Failure();
}

absl::Status OutputFile::Write(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(descriptor_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return Failure();
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return absl::OkStatus();
}

absl::Status OutputFile::Commit() {
  if (temporary_.empty()) return absl::OkStatus();
  if (fsync(descriptor_) != 0) return Failure();
  if (rename(temporary_.c_str(), target_.c_str()) != 0) return Failure();
  temporary_.clear();
  // The new name is on disk only when its directory is.
  const fs::path parent = fs::path(target_).parent_path();
  const int directory = open(parent.empty() ? "." : parent.c_str(), O_RDONLY | O_DIRECTORY);
  if (directory < 0) return Failure();
  const absl::Status synced = fsync(directory) == 0 ? absl::OkStatus() : Failure();
  close(directory);
  return synced;
}

bool OutputFile::IsTerminal() const { return isatty(descriptor_) == 1; }

absl::Status FlushStdout() {
  static int reason = 0;  // of the first failure, from when on nothing can be relied on
  if (reason == 0 && (std::fflush(stdout) != 0 || std::ferror(stdout) != 0 || !std::cout.flush())) {
    // Where it failed earlier, errno may be of something else by now.
    const bool is_of_writing = errno == ENOSPC || errno == EDQUOT || errno == EPIPE;
    reason = is_of_writing ? errno : EIO;
  }
  if (reason == 0) return absl::OkStatus();
  return absl::ErrnoToStatus(reason, "cannot write stdout");
}

}  // namespace tvq
