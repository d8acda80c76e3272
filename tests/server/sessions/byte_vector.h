// Streams in memory for tests.
#ifndef TVQ_TESTS_SERVER_SESSIONS_BYTE_VECTOR_H_
#define TVQ_TESTS_SERVER_SESSIONS_BYTE_VECTOR_H_

#include <algorithm>
#include <cstddef>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/sessions/snapshot/byte_stream.h"

namespace tvq::fixtures {

using Bytes = std::vector<std::byte>;

inline ByteSink AppendTo(Bytes* bytes) {
  return [bytes](std::span<const std::byte> more) {
    bytes->insert(bytes->end(), more.begin(), more.end());
    return absl::OkStatus();
  };
}

class BytesSource : public ByteSource {
 public:
  explicit BytesSource(Bytes bytes) : bytes_(std::move(bytes)) {}
  absl::Status Read(std::span<std::byte> out) override {
    if (out.size() > bytes_.size() - at_) {
      return absl::OutOfRangeError(absl::StrCat("ends at byte ", bytes_.size()));
    }
    std::copy_n(bytes_.begin() + static_cast<std::ptrdiff_t>(at_), out.size(), out.begin());
    at_ += out.size();
    return absl::OkStatus();
  }
  size_t left() const { return bytes_.size() - at_; }

 private:
  Bytes bytes_;
  size_t at_ = 0;
};

}  // namespace tvq::fixtures

#endif  // TVQ_TESTS_SERVER_SESSIONS_BYTE_VECTOR_H_
