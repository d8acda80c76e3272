#ifndef TVQ_SERVER_RPC_WIRE_MEMORY_FILE_H_
#define TVQ_SERVER_RPC_WIRE_MEMORY_FILE_H_

#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace tvq {

// A file without a place on any disk, for code of this process that opens files by their path. One
// thread at a time; readers of the path, any.
class MemoryFile {
 public:
  MemoryFile() = default;
  ~MemoryFile();
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  // What opens the path meets either all of the old text or all of the new. INTERNAL if the system
  // refuses; then the old text stays.
  absl::Status Replace(std::string_view text);

  // The same after every Replace; empty before the first.
  std::string path() const;

 private:
  int descriptor_ = -1;
};

}  // namespace tvq

#endif  // TVQ_SERVER_RPC_WIRE_MEMORY_FILE_H_
