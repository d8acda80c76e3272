#ifndef TVQ_CLIENT_CLI_LINE_LINE_HISTORY_H_
#define TVQ_CLIENT_CLI_LINE_LINE_HISTORY_H_

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace tvq::cli {

// Lines that were typed, in a file that only its owner can read and that does not grow without end.
// Several processes may add to it.
class LineHistory {
 public:
  struct Limits {
    size_t lines = 1000;
    size_t bytes = size_t{1} << 20;
  };

  explicit LineHistory(std::string path) : LineHistory(std::move(path), Limits()) {}
  LineHistory(std::string path, Limits limits) : path_(std::move(path)), limits_(limits) {}

  // The latest lines, oldest first; none where there is no file. Cuts what the file has too much.
  // Each error names the file.
  absl::StatusOr<std::vector<std::string>> Load() const;
  // A line may have line feeds in it. One that is larger than half of the limit is left out.
  absl::Status Add(const std::string& line) const;

 private:
  const std::string path_;
  const Limits limits_;
};

}  // namespace tvq::cli

#endif  // TVQ_CLIENT_CLI_LINE_LINE_HISTORY_H_
