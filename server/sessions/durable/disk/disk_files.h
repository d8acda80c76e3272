// What the disk tier does to a file system.
#ifndef TVQ_SERVER_SESSIONS_DURABLE_DISK_DISK_FILES_H_
#define TVQ_SERVER_SESSIONS_DURABLE_DISK_DISK_FILES_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/sessions/snapshot/byte_stream.h"

namespace tvq {

// Files of sessions are regular files in folders that are no links. Whatever else has the name of
// one (a named pipe, a link, a device, a directory) is refused with UNAVAILABLE, saying what it is:
// to open it could wait for ever, or reach what is none of the tier's.

// Every change goes through one of these, so that a test can let each of them fail, or the process
// end there. Errors name the path: RESOURCE_EXHAUSTED where there is no room, NOT_FOUND where there
// is no such file, UNAVAILABLE for other trouble. Thread-safe.
class DiskFiles {
 public:
  virtual ~DiskFiles() = default;

  // A new file to write, which only its owner can read, in place of what has the name. The caller
  // closes it.
  virtual absl::StatusOr<int> Create(const std::string& path);
  virtual absl::Status Write(int file, const std::string& path, std::span<const std::byte> bytes);
  // What was written outlives a loss of power after this.
  virtual absl::Status Sync(int file, const std::string& path);
  // Names made, changed and removed in the directory outlive a loss of power after this.
  virtual absl::Status SyncDirectory(const std::string& path);
  // After this, every change made so far to the directory's file system, by any process, survives a
  // loss of power.
  virtual absl::Status SyncFileSystem(const std::string& path);
  // Replaces what has the name `to`, at once.
  virtual absl::Status Rename(const std::string& from, const std::string& to);
  virtual absl::Status Remove(const std::string& path);
  // OK if it is there.
  virtual absl::Status MakeDirectory(const std::string& path);
  // Must be empty.
  virtual absl::Status RemoveDirectory(const std::string& path);
  // Bytes that this process may still write to the file system of the directory; nothing if that
  // does not say.
  virtual std::optional<int64_t> FreeBytes(const std::string& path);
};

// For people and by code, what went wrong with `path`.
absl::Status FileError(int error, const std::string& action, const std::string& path);

// A file from its first byte on. Clients read what goes wrong with a source, so it names the file
// without its directory.
absl::StatusOr<std::unique_ptr<ByteSource>> OpenFileSource(const std::string& path);

// A small file, or its first `most` bytes.
absl::StatusOr<std::string> ReadFileStart(const std::string& path, size_t most);

// Held by this process until it is destroyed.
class FileLock {
 public:
  // FAILED_PRECONDITION, naming it, if another process, or another lock of this one, holds it.
  static absl::StatusOr<std::unique_ptr<FileLock>> Take(const std::string& path);
  ~FileLock();
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

 private:
  explicit FileLock(int file) : file_(file) {}
  const int file_;
};

}  // namespace tvq

#endif  // TVQ_SERVER_SESSIONS_DURABLE_DISK_DISK_FILES_H_
