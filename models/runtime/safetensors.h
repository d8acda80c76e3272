#ifndef TVQ_MODELS_RUNTIME_SAFETENSORS_H_
#define TVQ_MODELS_RUNTIME_SAFETENSORS_H_

#include <cstddef>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/host/host_tasks.h"
#include "models/runtime/host_tensor.h"

namespace tvq {

// What a safetensors header describes; the tensors point into the bytes it was parsed from.
struct SafetensorsContent {
  std::map<std::string, HostTensor, std::less<>> tensors;
  std::map<std::string, std::string, std::less<>> metadata;
};

// Checks a whole file: 8 bytes of header length (little-endian), JSON, data. Everything is checked
// before use: length, depth, duplicate keys, dtype, shape, and that the tensors tile the data
// without gap or overlap up to the end of the file. Errors are INVALID_ARGUMENT and name file,
// tensor and offset. `source` stands for the file in messages.
absl::StatusOr<SafetensorsContent> ParseSafetensors(std::span<const std::byte> file,
                                                    std::string_view source);

// A mapped, fully checked file. The tensors live as long as this object. Immutable after Open,
// hence thread-safe. Pages are read from disk on first touch: if another process truncates the file
// meanwhile, the access raises SIGBUS, so replace model files by rename, never in place.
class SafetensorsFile {
 public:
  static absl::StatusOr<std::unique_ptr<SafetensorsFile>> Open(const std::string& path);
  ~SafetensorsFile();
  SafetensorsFile(const SafetensorsFile&) = delete;
  SafetensorsFile& operator=(const SafetensorsFile&) = delete;

  // Null if there is no such tensor.
  const HostTensor* Find(std::string_view name) const;

  const std::map<std::string, HostTensor, std::less<>>& tensors() const { return content_.tensors; }
  const std::map<std::string, std::string, std::less<>>& metadata() const {
    return content_.metadata;
  }
  const std::string& path() const { return path_; }

  // Where one of this file's tensors begins, in bytes from the start of the file.
  std::ptrdiff_t Offset(const HostTensor& tensor) const {
    return static_cast<const std::byte*>(tensor.data) - mapping_.data();
  }

  // Compares a tensor's bytes with the CRC-32 that the file's metadata give for it under
  // "crc32.<tensor>", 8 hexadecimal digits; OK if the metadata have none. DATA_LOSS naming file,
  // tensor and offset if they differ. `tasks` runs the parts of large tensors.
  absl::Status CheckIntegrity(std::string_view name, const HostTasks& tasks = OneByOne) const;

  // Asks the system to have the bytes from `offset` on, as far as the file goes, read from disk
  // soon.
  void ReadAhead(std::ptrdiff_t offset, std::ptrdiff_t size) const;

 private:
  SafetensorsFile(std::string path, std::span<const std::byte> mapping);

  std::string path_;
  std::span<const std::byte> mapping_;
  SafetensorsContent content_;
};

}  // namespace tvq

#endif  // TVQ_MODELS_RUNTIME_SAFETENSORS_H_
