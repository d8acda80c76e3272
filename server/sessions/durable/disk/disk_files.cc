#include "server/sessions/durable/disk/disk_files.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

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

const char* KindOf(mode_t mode) {
  switch (mode & S_IFMT) {
    case S_IFREG:
      return "a file";
    case S_IFLNK:
      return "a symbolic link";
    case S_IFIFO:
      return "a named pipe";
    case S_IFDIR:
      return "a directory";
    case S_IFSOCK:
      return "a socket";
    default:
      return "a device";
  }
}

absl::Status CheckRegular(const struct stat& info, const std::string& path) {
  if (S_ISREG(info.st_mode)) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("cannot open ", path, ": it is ", KindOf(info.st_mode),
                                             ", must be a regular file"));
}

// Opens `name` in the directory `folder`. All files of the tier are opened here. What is known to
// be no file is not even tried: to open a device may do something, to open a named pipe may wait
// for its other end. The second look is for what takes the place of a file meanwhile.
absl::StatusOr<int> OpenRegular(int folder, const std::string& name, int flags,
                                const std::string& path) {
  struct stat info;
  if (fstatat(folder, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0) {
    if (absl::Status s = CheckRegular(info, path); !s.ok()) return s;
  }
  const int file =
      openat(folder, name.c_str(), flags | O_NONBLOCK | O_NOFOLLOW | O_NOCTTY | O_CLOEXEC, 0600);
  if (file < 0) return FileError(errno, "open", path);
  absl::Status s =
      fstat(file, &info) == 0 ? CheckRegular(info, path) : FileError(errno, "look at", path);
  if (s.ok()) return file;
  close(file);
  return s;
}

// The folder of a file, itself no link, for calls that take a folder and a name.
class Folder {
 public:
  explicit Folder(const std::string& path)
      : name_(path.substr(path.rfind('/') + 1)),
        folder_(open(path.substr(0, path.rfind('/')).c_str(),
                     O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)),
        error_(folder_ < 0 ? FileError(errno, "open the folder of", path) : absl::OkStatus()) {}
  ~Folder() {
    if (folder_ >= 0) close(folder_);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  const absl::Status& status() const { return error_; }
  int folder() const { return folder_; }
  const std::string& name() const { return name_; }  // of the file in it

 private:
  const std::string name_;
  const int folder_;
  const absl::Status error_;
};

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
  const Folder folder(path);
  if (!folder.status().ok()) return folder.status();
  // Never through what has the name: a link may lead anywhere.
  if (unlinkat(folder.folder(), folder.name().c_str(), 0) != 0 && errno != ENOENT) {
    return FileError(errno, "replace", path);
  }
  return OpenRegular(folder.folder(), folder.name(), O_WRONLY | O_CREAT | O_EXCL, path);
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
  if (error != EEXIST || stat(path.c_str(), &info) != 0) {
    return FileError(error, "make directory", path);
  }
  if (S_ISDIR(info.st_mode)) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("cannot make directory ", path, ": it is ",
                                             KindOf(info.st_mode), ", must be a directory"));
}

absl::Status DiskFiles::RemoveDirectory(const std::string& path) {
  return Result(rmdir(path.c_str()), "remove", path);
}

std::optional<int64_t> DiskFiles::FreeBytes(const std::string& path) {
  std::error_code error;
  const auto available = std::filesystem::space(path, error).available;
  if (error || !std::in_range<int64_t>(available)) return std::nullopt;
  return static_cast<int64_t>(available);
}

absl::StatusOr<std::unique_ptr<ByteSource>> OpenFileSource(const std::string& path) {
  const Folder folder(path);
  if (!folder.status().ok()) return folder.status();
  absl::StatusOr<int> file = OpenRegular(folder.folder(), folder.name(), O_RDONLY, path);
  if (!file.ok()) return file.status();
  return std::make_unique<FileSource>(*file, folder.name());
}

absl::StatusOr<std::string> ReadFileStart(const std::string& path, size_t most) {
  absl::StatusOr<std::unique_ptr<ByteSource>> source = OpenFileSource(path);
  if (!source.ok()) return source.status();
  std::string text;
  while (text.size() < most) {
    char next = 0;
    const absl::Status s = (*source)->Read(std::as_writable_bytes(std::span(&next, 1)));
    if (absl::IsOutOfRange(s)) break;
    if (!s.ok()) return s;
    text += next;
  }
  return text;
}

absl::StatusOr<std::unique_ptr<FileLock>> FileLock::Take(const std::string& path) {
  // Unlike the folders below it, the directory of the tier may be reached by a link.
  const absl::StatusOr<int> opened = OpenRegular(AT_FDCWD, path, O_RDWR | O_CREAT, path);
  if (!opened.ok()) return opened.status();
  const int file = *opened;
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
