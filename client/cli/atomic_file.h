#ifndef TVQ_CLIENT_CLI_ATOMIC_FILE_H_
#define TVQ_CLIENT_CLI_ATOMIC_FILE_H_

#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace tvq::cli {

// A file that appears under its name whole and on disk, or not at all: written beside it under
// another name, then renamed. Readable by its owner alone.
class AtomicFile {
 public:
  explicit AtomicFile(std::string path) : path_(std::move(path)) {}
  // Removes what was written, unless committed.
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  // Each names the file and the system's reason when it fails.
  absl::Status Open();
  absl::Status Write(std::string_view bytes);
  absl::Status Commit();

 private:
  const std::string path_;
  std::string temporary_;  // empty: nothing to remove
  int descriptor_ = -1;
};

}  // namespace tvq::cli

#endif  // TVQ_CLIENT_CLI_ATOMIC_FILE_H_
