#ifndef TVQ_BASE_READ_FILE_H_
#define TVQ_BASE_READ_FILE_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace tvq {

// Opens a regular file for reading and finds its size. NOT_FOUND if it does not exist,
// INVALID_ARGUMENT if it is not a regular file, else the system's error; all name the path. The
// caller closes the descriptor.
struct OpenedFile {
  int descriptor = -1;
  int64_t size = 0;
};
absl::StatusOr<OpenedFile> OpenRegularFile(const std::string& path);

// The whole file; INVALID_ARGUMENT if it is larger than `max_bytes`.
absl::StatusOr<std::string> ReadFile(const std::string& path, int64_t max_bytes);

// Whether to wait for what comes through a pipe. A program may at its start (kWait), for
// --api-key-file <(...); a server at work does not (kDoNotWait). A client waits only for a pipe
// that has a writer (kWaitIfWritten).
enum class Pipes : uint8_t { kWait, kWaitIfWritten, kDoNotWait };

// The whole of a file that an operator names, such as keys or certificates, and that may be a pipe.
// NOT_FOUND says that `what` (as "key file") at `file`, perhaps a directory, cannot be read, and
// why: it has more than `max_bytes`, say.
absl::StatusOr<std::string> ReadNamedFile(const std::string& what, const std::string& file,
                                          Pipes pipes, int64_t max_bytes = int64_t{1} << 24);

// OK if `name`, taken from a model's own files, is a plain file name: not empty, no directory part.
// So a model can name only what lies in its directory. `what` opens the message.
absl::Status CheckPlainFileName(std::string_view what, std::string_view name);

}  // namespace tvq

#endif  // TVQ_BASE_READ_FILE_H_
