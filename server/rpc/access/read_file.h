#ifndef TVQ_SERVER_RPC_ACCESS_READ_FILE_H_
#define TVQ_SERVER_RPC_ACCESS_READ_FILE_H_

#include <string>

#include "absl/status/statusor.h"

namespace tvq {

// The whole of a small file, such as keys or certificates. NOT_FOUND says that `what` (as "key
// file") at `file`, perhaps a directory, cannot be read, and why.
absl::StatusOr<std::string> ReadFile(const std::string& what, const std::string& file);

}  // namespace tvq

#endif  // TVQ_SERVER_RPC_ACCESS_READ_FILE_H_
