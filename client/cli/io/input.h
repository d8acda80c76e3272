#ifndef TVQ_CLIENT_CLI_IO_INPUT_H_
#define TVQ_CLIENT_CLI_IO_INPUT_H_

#include <cstdio>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace tvq::cli {

enum class Content {
  kText,
  kBinary  // no terminal gives it
};

// What messages call a file that is read.
std::string InputName(const std::string& path);

// A file that is read, or stdin for "-".
class Input {
 public:
  // `what` is read; a terminal that it is to come from is told so.
  Input(std::string path, std::string what, Content content);

  // Each names the file and the system's reason when it fails: a folder opens and cannot be read.
  // INVALID_ARGUMENT for a terminal that is to give what is binary.
  absl::Status Open();
  // The next bytes, at most a MiB; none at the end.
  absl::StatusOr<std::string> Read();

 private:
  absl::Status Failure() const;

  const std::string path_;
  const std::string what_;
  const Content content_;
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file_;
};

// The whole of it.
absl::Status ReadInput(const std::string& path, std::string* bytes,
                       const std::string& what = "text", Content content = Content::kText);

}  // namespace tvq::cli

#endif  // TVQ_CLIENT_CLI_IO_INPUT_H_
