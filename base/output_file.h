#ifndef TVQ_BASE_OUTPUT_FILE_H_
#define TVQ_BASE_OUTPUT_FILE_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace tvq {

// Who may read a file: its owner alone, as what a session holds, or whom the umask lets.
enum class Readers : uint8_t { kOwner, kUmask };

// A file that is written. It appears under its name whole and on disk, or not at all: written
// beside it under another name, then renamed. Of a link, the file it points to is replaced. What is
// there and no regular file, such as a device or a pipe, is written in place, and so is stdout,
// named "-".
class OutputFile {
 public:
  OutputFile(std::string path, Readers readers) : path_(std::move(path)), readers_(readers) {}
  // Removes what was written beside the file, unless committed.
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  // Each names the file and the system's reason when it fails. From Open on the process ignores
  // SIGXFSZ.
  absl::Status Open();
  absl::Status Write(std::string_view bytes);
  absl::Status Commit();
  // Whether what was opened is a terminal.
  bool IsTerminal() const;

 private:
  absl::Status Opened(int descriptor);
  absl::Status Failure() const;

  const std::string path_;
  const Readers readers_;
  std::string target_;     // path_ behind all links
  std::string temporary_;  // to be renamed to target_; empty: nothing to rename or remove
  int descriptor_ = -1;
};

// Sends what was printed to stdout on its way. The system's reason where that, or an earlier part,
// cannot be written; EPIPE, say, where its reader has gone and SIGPIPE is ignored.
absl::Status FlushStdout();

}  // namespace tvq

#endif  // TVQ_BASE_OUTPUT_FILE_H_
