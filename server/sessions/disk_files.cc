#include "server/sessions/disk_files.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"

namespace tvq {
namespace {

absl::StatusCode CodeOf(int error) {
  switch (error) {
    case ENOENT:
      return absl::StatusCode::kNotFound;
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
    case EMFILE:
    case ENFILE:
      return absl::StatusCode::kResourceExhausted;
    default:
      return absl::StatusCode::kUnavailable;
  }
}

absl::Status Result(int returned, const char* action, const std::string& path) {
  return returned == 0 ? absl::OkStatus() : FileError(errno, action, path);
}

absl::Status SyncOpened(const std::string& path, int (*sync)(int)) {
  const int directory = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (directory < 0) return FileError(errno, "open", path);
  absl::Cleanup closer = [&] { close(directory); };
  return Result(sync(directory), "sync", path);
}

class FileSource : public ByteSource {
 public:
  FileSource(int file, std::string name) : file_(file), name_(std::move(name)) {}
  ~FileSource() override { close(file_); }

  absl::Status Read(std::span<std::byte> out) override {
    while (!out.empty()) {
      const ssize_t got = read(file_, out.data(), out.size());
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return FileError(errno, "read", name_);
      if (got == 0) {
        return absl::OutOfRangeError(
            absl::StrCat(name_, " ends at byte ", at_, ", ", out.size(), " more were to come"));
      }
      out = out.subspan(static_cast<size_t>(got));
      at_ += got;
    }
    return absl::OkStatus();
  }

 private:
  const int file_;
  const std::string name_;
  int64_t at_ = 0;
};

}  // namespace

absl::Status FileError(int error, const std::string& action, const std::string& path) {
  return absl::Status(CodeOf(error),
                      absl::StrCat("cannot ", action, " ", path, ": ", std::strerror(error)));
}

absl::StatusOr<int> DiskFiles::Create(const std::string& path) {
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (file < 0) return FileError(errno, "create", path);
  return file;
}

absl::Status DiskFiles::Write(int file, const std::string& path, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t done = write(file, bytes.data(), bytes.size());
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) return FileError(errno, "write", path);
    bytes = bytes.subspan(static_cast<size_t>(done));
  }
  return absl::OkStatus();
}

absl::Status DiskFiles::Sync(int file, const std::string& path) {
  return Result(fsync(file), "sync", path);
}

absl::Status DiskFiles::SyncDirectory(const std::string& path) { return SyncOpened(path, fsync); }

absl::Status DiskFiles::SyncFileSystem(const std::string& path) { return SyncOpened(path, syncfs); }

absl::Status DiskFiles::Rename(const std::string& from, const std::string& to) {
  return Result(rename(from.c_str(), to.c_str()), "rename", from);
}

absl::Status DiskFiles::Remove(const std::string& path) {
  return Result(unlink(path.c_str()), "remove", path);
}

absl::Status DiskFiles::MakeDirectory(const std::string& path) {
  if (mkdir(path.c_str(), 0700) == 0) return absl::OkStatus();
  const int error = errno;
  struct stat info;
  if (error == EEXIST && stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode)) {
    return absl::OkStatus();
  }
  return FileError(error, "make directory", path);
}

absl::Status DiskFiles::RemoveDirectory(const std::string& path) {
  return Result(rmdir(path.c_str()), "remove", path);
}

absl::StatusOr<std::unique_ptr<ByteSource>> OpenFileSource(const std::string& path) {
  // Without O_NONBLOCK the open of a named pipe would wait for a writer.
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
  if (file < 0) return FileError(errno, "open", path);
  return std::make_unique<FileSource>(file, path.substr(path.rfind('/') + 1));
}

absl::StatusOr<std::unique_ptr<FileLock>> FileLock::Take(const std::string& path) {
  const int file = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (file < 0) return FileError(errno, "open", path);
  std::unique_ptr<FileLock> lock(new FileLock(file));
  if (flock(file, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return FileError(errno, "lock", path);
    return absl::FailedPreconditionError(
        absl::StrCat(path, " is held by another server; each needs a directory of its own"));
  }
  return lock;
}

FileLock::~FileLock() { close(file_); }

}  // namespace tvq
