// Bytes on their way between memory, disk and network.
#ifndef TVQ_SERVER_SESSIONS_SNAPSHOT_BYTE_STREAM_H_
#define TVQ_SERVER_SESSIONS_SNAPSHOT_BYTE_STREAM_H_

#include <cstddef>
#include <functional>
#include <span>

#include "absl/status/status.h"

namespace tvq {

// Takes the next bytes of a stream.
using ByteSink = std::function<absl::Status(std::span<const std::byte>)>;

// Gives the next bytes of a stream. One thread at a time.
class ByteSource {
 public:
  virtual ~ByteSource() = default;
  // Fills all of `out`. OUT_OF_RANGE, saying where, if the stream ends before.
  virtual absl::Status Read(std::span<std::byte> out) = 0;
};

}  // namespace tvq

#endif  // TVQ_SERVER_SESSIONS_SNAPSHOT_BYTE_STREAM_H_
