// The framing that snapshots and state images share (docs/snapshot-format.md): a JSON header, then
// sections, all with checksums.
#ifndef TVQ_SERVER_SESSIONS_SNAPSHOT_FRAME_H_
#define TVQ_SERVER_SESSIONS_SNAPSHOT_FRAME_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/sessions/snapshot/byte_stream.h"

struct XXH3_state_s;

namespace tvq {

struct FrameFormat {
  std::string_view name;   // for messages
  std::string_view magic;  // 8 characters
  uint32_t version = 0;    // that is written; also the latest that can be read
};

inline constexpr int64_t kLargestFrameHeader = int64_t{1} << 20;
inline constexpr int64_t kChecksumBytes = 8;

// Bytes that a header of `json_bytes` takes. A section takes kChecksumBytes more than it has.
inline int64_t FrameHeaderBytes(int64_t json_bytes) { return 24 + json_bytes + kChecksumBytes; }

// XXH3-64 over one section, begun with a seed.
class SectionHash {
 public:
  SectionHash();
  void Begin(uint64_t seed);
  void Add(std::span<const std::byte> bytes);
  uint64_t Value() const;

 private:
  struct Free {
    void operator()(XXH3_state_s* state) const;
  };
  std::unique_ptr<XXH3_state_s, Free> state_;
};

class FrameWriter {
 public:
  // `sink` must outlive this.
  explicit FrameWriter(const ByteSink& sink) : sink_(sink) {}

  absl::Status Header(const FrameFormat& format, std::string_view json);
  // The bytes of a section, in any number of pieces, then End.
  absl::Status Add(std::span<const std::byte> bytes);
  absl::Status End();

 private:
  void BeginSection() { hash_.Begin(header_checksum_ + ++section_); }

  const ByteSink& sink_;
  SectionHash hash_;
  uint64_t header_checksum_ = 0;
  uint64_t section_ = 0;
};

// Reads what is not trusted. Errors are INVALID_ARGUMENT for what is no frame or has been
// damaged, FAILED_PRECONDITION for a later format or another byte order, and the source's own if it
// cannot be read; they say where.
class FrameReader {
 public:
  // `source` must outlive this.
  FrameReader(ByteSource* source, const FrameFormat& format) : source_(source), format_(format) {}

  absl::StatusOr<nlohmann::json> Header();
  // Of the format, as the header says.
  uint32_t version() const { return version_; }
  // Bytes from the header's first to its checksum's last.
  int64_t header_bytes() const { return header_bytes_; }

  // The bytes of a section, in any number of pieces, then End. What was read is to be trusted only
  // after End. `section` is for messages.
  absl::Status Read(std::string_view section, std::span<std::byte> out);
  absl::Status End(std::string_view section);

  // Bytes that follow as they are.
  absl::Status ReadPlain(std::string_view what, std::span<std::byte> out);

  // INVALID_ARGUMENT, opened by the format's name.
  absl::Status Invalid(std::string_view problem) const;

 private:
  absl::Status ReadMagic(std::span<std::byte> out);
  absl::Status CheckPrefix(std::span<const std::byte> prefix) const;
  void BeginSection() { hash_.Begin(header_checksum_ + ++section_); }

  ByteSource* const source_;
  const FrameFormat format_;
  SectionHash hash_;
  uint64_t header_checksum_ = 0;
  uint64_t section_ = 0;
  int64_t header_bytes_ = 0;
  uint32_t version_ = 0;
};

}  // namespace tvq

#endif  // TVQ_SERVER_SESSIONS_SNAPSHOT_FRAME_H_
