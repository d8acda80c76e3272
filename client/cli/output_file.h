#ifndef TVQ_CLIENT_CLI_OUTPUT_FILE_H_
#define TVQ_CLIENT_CLI_OUTPUT_FILE_H_

#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace tvq::cli {

// A file that is written. It appears under its name whole and on disk, or not at all: written
// beside it under another name, then renamed, readable by its owner alone. Of a link, the file it
// points to is replaced. What is there and no regular file, such as a device or a pipe, is written
// in place, and so is stdout, named "-".
class OutputFile {
 public:
  explicit OutputFile(std::string path) : path_(std::move(path)) {}
  // Removes what was written beside the file, unless committed.
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  // Each names the file and the system's reason when it fails.
  absl::Status Open();
  absl::Status Write(std::string_view bytes);
  absl::Status Commit();

 private:
  absl::Status Opened(int descriptor);
  absl::Status Failure() const;

  const std::string path_;
  std::string target_;     // path_ behind all links
  std::string temporary_;  // to be renamed to target_; empty: nothing to rename or remove
  int descriptor_ = -1;
};

}  // namespace tvq::cli

#endif  // TVQ_CLIENT_CLI_OUTPUT_FILE_H_
