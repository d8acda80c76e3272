#include "server/sessions/snapshot/frame.h"

#include <xxhash.h>

#include <bit>
#include <cstring>
#include <new>
#include <nlohmann/json.hpp>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/json.h"
#include "base/quoted.h"
#include "base/refusal.h"

namespace tvq {
namespace {

static_assert(std::endian::native == std::endian::little, "frames are little-endian");

// Magic [8], version u32, byte order mark u32, length of the JSON u32, zero u32.
constexpr size_t kMagicBytes = 8, kPrefixBytes = 24;
constexpr uint32_t kByteOrderMark = 0x01020304;
// Deep enough for a record's marks; a section or a mark is about four values.
constexpr JsonLimits kHeaderLimits = {.depth = 4, .values = 200'000};

template <typename T>
void Put(std::span<std::byte> prefix, size_t at, T value) {
  std::memcpy(prefix.data() + at, &value, sizeof(value));
}

template <typename T>
T Get(std::span<const std::byte> prefix, size_t at) {
  T value;
  std::memcpy(&value, prefix.data() + at, sizeof(value));
  return value;
}

std::string Str(std::string_view text) { return std::string(text); }

}  // namespace

SectionHash::SectionHash() : state_(XXH3_createState()) {
  if (state_ == nullptr) throw std::bad_alloc();
  Begin(0);
}

void SectionHash::Free::operator()(XXH3_state_s* state) const { XXH3_freeState(state); }

void SectionHash::Begin(uint64_t seed) { XXH3_64bits_reset_withSeed(state_.get(), seed); }

void SectionHash::Add(std::span<const std::byte> bytes) {
  XXH3_64bits_update(state_.get(), bytes.data(), bytes.size());
}

uint64_t SectionHash::Value() const { return XXH3_64bits_digest(state_.get()); }

absl::Status FrameWriter::Header(const FrameFormat& format, std::string_view json) {
  if (static_cast<int64_t>(json.size()) > kLargestFrameHeader) {
    return absl::ResourceExhaustedError(absl::StrCat(Str(format.name), ": the header has ",
                                                     json.size(), " bytes, must have at most ",
                                                     kLargestFrameHeader));
  }
  std::vector<std::byte> header(kPrefixBytes + json.size() + kChecksumBytes);
  std::memcpy(header.data(), format.magic.data(), 8);
  Put<uint32_t>(header, 8, format.version);
  Put<uint32_t>(header, 12, kByteOrderMark);
  Put<uint32_t>(header, 16, static_cast<uint32_t>(json.size()));
  std::memcpy(header.data() + kPrefixBytes, json.data(), json.size());
  hash_.Begin(0);
  hash_.Add(std::span(header).first(kPrefixBytes + json.size()));
  header_checksum_ = hash_.Value();
  Put<uint64_t>(header, kPrefixBytes + json.size(), header_checksum_);
  BeginSection();
  return sink_(header);
}

absl::Status FrameWriter::Add(std::span<const std::byte> bytes) {
  if (bytes.empty()) return absl::OkStatus();
  hash_.Add(bytes);
  return sink_(bytes);
}

absl::Status FrameWriter::End() {
  const uint64_t checksum = hash_.Value();
  BeginSection();
  return sink_(std::as_bytes(std::span(&checksum, 1)));
}

absl::Status FrameReader::Invalid(std::string_view problem) const {
  return Refused(Reason::kSnapshotInvalid, absl::StrCat(Str(format_.name), ": ", Str(problem)));
}

absl::Status FrameReader::ReadPlain(std::string_view what, std::span<std::byte> out) {
  absl::Status s = source_->Read(out);
  if (s.ok()) return s;
  // A stream that ends too soon is a damaged frame; whatever else goes wrong is not the frame's.
  const bool ended = absl::IsOutOfRange(s);
  Refusal refusal = RefusalOf(s);
  if (ended) refusal = {.reason = Reason::kSnapshotInvalid};
  return WithRefusal(refusal, absl::StrCat(Str(format_.name), ": ", Str(what), ": ", s.message()));
}

// What is no frame at all is told by its beginning, however short it is.
absl::Status FrameReader::ReadMagic(std::span<std::byte> out) {
  absl::Status s = ReadPlain(
      absl::StrCat("the ", out.size(), " bytes that it begins with, ", Quoted(format_.magic)), out);
  if (!s.ok()) return s;
  const std::string_view magic(reinterpret_cast<const char*>(out.data()), out.size());
  if (magic == format_.magic) return absl::OkStatus();
  return Invalid(
      absl::StrCat("begins with ", Quoted(magic), ", must begin with ", Quoted(format_.magic)));
}

absl::Status FrameReader::CheckPrefix(std::span<const std::byte> prefix) const {
  const auto mark = Get<uint32_t>(prefix, 12);
  if (mark == __builtin_bswap32(kByteOrderMark)) {
    return Refused(Reason::kSnapshotForeign,
                   absl::StrCat(Str(format_.name),
                                ": was written in big-endian byte order, must be little-endian"));
  }
  if (mark != kByteOrderMark) {
    return Invalid(absl::StrCat("has byte order mark ", mark, ", must be ", kByteOrderMark));
  }
  const auto version = Get<uint32_t>(prefix, 8);
  if (version == 0) return Invalid("has format version 0, must be at least 1");
  if (version > format_.version) {
    return Refused(Reason::kSnapshotForeign,
                   absl::StrCat(Str(format_.name), ": has format version ", version,
                                ", this server reads versions up to ", format_.version));
  }
  const auto length = Get<uint32_t>(prefix, 16);
  if (length > kLargestFrameHeader) {
    return Invalid(absl::StrCat("has a header of ", length, " bytes, must have at most ",
                                kLargestFrameHeader));
  }
  if (Get<uint32_t>(prefix, 20) != 0) return Invalid("has bytes 20 to 23 other than 0");
  return absl::OkStatus();
}

absl::StatusOr<nlohmann::json> FrameReader::Header() {
  std::vector<std::byte> header(kPrefixBytes);
  const auto prefix = std::span(header);
  if (absl::Status s = ReadMagic(prefix.first(kMagicBytes)); !s.ok()) return s;
  if (absl::Status s = ReadPlain("header", prefix.subspan(kMagicBytes)); !s.ok()) return s;
  if (absl::Status s = CheckPrefix(header); !s.ok()) return s;
  version_ = Get<uint32_t>(header, 8);
  header.resize(kPrefixBytes + Get<uint32_t>(header, 16));
  absl::Status s = ReadPlain("header", std::span(header).subspan(kPrefixBytes));
  if (!s.ok()) return s;
  uint64_t stored;
  s = ReadPlain("header checksum", std::as_writable_bytes(std::span(&stored, 1)));
  if (!s.ok()) return s;
  hash_.Begin(0);
  hash_.Add(header);
  header_checksum_ = hash_.Value();
  if (stored != header_checksum_) return Invalid("the header is damaged: its checksum differs");
  header_bytes_ = static_cast<int64_t>(header.size()) + kChecksumBytes;
  BeginSection();
  const std::string_view json(reinterpret_cast<const char*>(header.data()) + kPrefixBytes,
                              header.size() - kPrefixBytes);
  return ParseJsonObject(json, absl::StrCat(Str(format_.name), ": the header"), kHeaderLimits);
}

absl::Status FrameReader::Read(std::string_view section, std::span<std::byte> out) {
  if (out.empty()) return absl::OkStatus();
  if (absl::Status s = ReadPlain(section, out); !s.ok()) return s;
  hash_.Add(out);
  return absl::OkStatus();
}

absl::Status FrameReader::End(std::string_view section) {
  const uint64_t checksum = hash_.Value();
  BeginSection();
  uint64_t stored;
  absl::Status s = ReadPlain(section, std::as_writable_bytes(std::span(&stored, 1)));
  if (!s.ok()) return s;
  if (stored == checksum) return absl::OkStatus();
  return Invalid(absl::StrCat(Str(section), " is damaged: its checksum differs"));
}

}  // namespace tvq
