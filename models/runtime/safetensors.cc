#include "models/runtime/safetensors.h"

#include <sys/mman.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/json.h"
#include "base/quoted.h"
#include "base/read_file.h"

namespace tvq {
namespace {

using nlohmann::json;

constexpr uint64_t kLengthBytes = 8;
constexpr uint64_t kLargestHeader = 100'000'000;  // the format's own limit
// Header, tensor, shape. A tensor is about 9 values, so this is room for 500,000 tensors.
constexpr JsonLimits kHeaderLimits = {.depth = 3, .values = 5'000'000};

// Where a tensor's bytes lie, counted from the start of the data.
struct Extent {
  uint64_t begin = 0;
  uint64_t end = 0;
  const std::string* name = nullptr;
};

// Makes the errors of one file, whose messages begin with its name.
class Reporter {
 public:
  explicit Reporter(std::string_view source) : source_(source) {}
  absl::Status File(const std::string& problem) const {
    return absl::InvalidArgumentError(absl::StrCat(source_, ": ", problem));
  }
  absl::Status Tensor(const std::string& name, const std::string& problem) const {
    return File(absl::StrCat("tensor ", Quoted(name), " ", problem));
  }

 private:
  std::string source_;
};

absl::StatusOr<uint64_t> HeaderLength(std::span<const std::byte> file, const Reporter& report) {
  if (file.size() < kLengthBytes) {
    return report.File(absl::StrCat("has ", file.size(),
                                    " bytes; a safetensors file begins with 8 bytes of header "
                                    "length"));
  }
  uint64_t length = 0;
  for (uint64_t i = 0; i < kLengthBytes; ++i) {
    length |= std::to_integer<uint64_t>(file[i]) << (8 * i);
  }
  if (length > kLargestHeader) {
    return report.File(absl::StrCat("header length at offset 0 is ", length,
                                    "; the largest allowed is ", kLargestHeader));
  }
  if (length > file.size() - kLengthBytes) {
    return report.File(absl::StrCat("header length at offset 0 is ", length, ", but only ",
                                    file.size() - kLengthBytes, " bytes follow"));
  }
  return length;
}

absl::StatusOr<std::vector<int64_t>> ReadShape(const std::string& name, const json& info,
                                               const Reporter& report) {
  const auto shape = info.find("shape");
  if (shape == info.end() || !shape->is_array()) {
    return report.Tensor(name, "has no \"shape\" array");
  }
  std::vector<int64_t> result;
  result.reserve(shape->size());
  for (const json& size : *shape) {
    constexpr auto kMax = static_cast<uint64_t>(INT64_MAX);
    if (!size.is_number_unsigned() || size.get<uint64_t>() > kMax) {
      return report.Tensor(name,
                           absl::StrCat("has a \"shape\" with an entry that is not an integer "
                                        "from 0 to ",
                                        kMax));
    }
    result.push_back(size.get<int64_t>());
  }
  return result;
}

absl::StatusOr<Extent> ReadExtent(const std::string& name, const json& info, uint64_t data_size,
                                  const Reporter& report) {
  const auto offsets = info.find("data_offsets");
  const bool two = offsets != info.end() && offsets->is_array() && offsets->size() == 2 &&
                   (*offsets)[0].is_number_unsigned() && (*offsets)[1].is_number_unsigned();
  if (!two) {
    return report.Tensor(name, "has no \"data_offsets\" of two non-negative integers");
  }
  const Extent extent = {(*offsets)[0].get<uint64_t>(), (*offsets)[1].get<uint64_t>(), &name};
  if (extent.begin > extent.end || extent.end > data_size) {
    return report.Tensor(
        name, absl::StrCat("has data_offsets [", extent.begin, ", ", extent.end,
                           "]; they must ascend and lie in the file's ", data_size, " data bytes"));
  }
  return extent;
}

// Bytes that a tensor takes; nullopt if the number does not fit into 64 bits.
std::optional<uint64_t> CheckedByteSize(const std::vector<int64_t>& shape, HostDType dtype) {
  uint64_t bytes = ElementSize(dtype);
  for (const int64_t size : shape) {
    if (size == 0) return 0;
  }
  for (const int64_t size : shape) {
    if (__builtin_mul_overflow(bytes, static_cast<uint64_t>(size), &bytes)) return std::nullopt;
  }
  return bytes;
}

absl::Status ReadTensor(const std::string& name, const json& info, std::span<const std::byte> data,
                        const Reporter& report, SafetensorsContent& content,
                        std::vector<Extent>& extents) {
  if (!info.is_object()) return report.Tensor(name, "is not described by an object");
  const auto dtype_name = info.find("dtype");
  if (dtype_name == info.end() || !dtype_name->is_string()) {
    return report.Tensor(name, "has no \"dtype\" string");
  }
  const std::optional<HostDType> dtype = DTypeFromName(dtype_name->get_ref<const std::string&>());
  if (!dtype.has_value()) {
    return report.Tensor(
        name, absl::StrCat("has dtype ", Quoted(dtype_name->get_ref<const std::string&>()),
                           "; known are F64, F32, F16, BF16, I64, I32, I16, I8, U64, U32, U16, U8, "
                           "BOOL"));
  }
  absl::StatusOr<std::vector<int64_t>> shape = ReadShape(name, info, report);
  if (!shape.ok()) return shape.status();
  absl::StatusOr<Extent> extent = ReadExtent(name, info, data.size(), report);
  if (!extent.ok()) return extent.status();

  const std::optional<uint64_t> needed = CheckedByteSize(*shape, *dtype);
  if (needed != extent->end - extent->begin) {
    return report.Tensor(
        name, absl::StrCat("of dtype ", std::string(DTypeName(*dtype)), " and shape ",
                           ShapeString(*shape), " takes ",
                           needed.has_value() ? absl::StrCat(*needed) : "more than 2^64",
                           " bytes, but its data_offsets [", extent->begin, ", ", extent->end,
                           "] span ", extent->end - extent->begin));
  }
  const auto [entry, inserted] = content.tensors.emplace(
      name, HostTensor{data.data() + extent->begin, *dtype, *std::move(shape)});
  extent->name = &entry->first;
  extents.push_back(*extent);
  return absl::OkStatus();
}

// The tensors must tile the data: no byte unclaimed, none claimed twice.
absl::Status CheckTiling(std::vector<Extent>& extents, uint64_t data_start, uint64_t data_size,
                         const Reporter& report) {
  std::sort(extents.begin(), extents.end(), [](const Extent& a, const Extent& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  uint64_t covered = 0;
  for (const Extent& extent : extents) {
    if (extent.begin != covered) {
      return report.Tensor(
          *extent.name, absl::StrCat("begins at data offset ", extent.begin, " (file offset ",
                                     data_start + extent.begin, "); it must be ", covered,
                                     ", where the tensor before it ends: ",
                                     extent.begin < covered ? "they overlap" : "there is a gap"));
    }
    covered = extent.end;
  }
  if (covered != data_size) {
    return report.File(absl::StrCat("the tensors end at file offset ", data_start + covered,
                                    ", but the file has ", data_start + data_size, " bytes"));
  }
  return absl::OkStatus();
}

absl::Status ReadMetadata(const json& object, const Reporter& report, SafetensorsContent& content) {
  if (!object.is_object()) return report.File("\"__metadata__\" is not an object");
  for (const auto& [key, value] : object.items()) {
    if (!value.is_string()) {
      return report.File(absl::StrCat("\"__metadata__\" entry ", Quoted(key), " is not a string"));
    }
    content.metadata.emplace(key, value.get<std::string>());
  }
  return absl::OkStatus();
}

constexpr size_t kChecksumPart = size_t{1} << 20;

uLong Crc32(std::span<const std::byte> bytes, const HostTasks& tasks) {
  const size_t parts = (bytes.size() + kChecksumPart - 1) / kChecksumPart;
  const auto part = [bytes](size_t index) {
    const auto rest = bytes.subspan(index * kChecksumPart);
    return rest.first(std::min(rest.size(), kChecksumPart));
  };
  std::vector<uLong> sums(parts);
  tasks(static_cast<int64_t>(parts), [&](int64_t index) {
    const auto i = static_cast<size_t>(index);
    sums[i] = crc32_z(0, reinterpret_cast<const Bytef*>(part(i).data()), part(i).size());
  });
  uLong sum = 0;
  for (size_t i = 0; i < parts; ++i) {
    sum = crc32_combine(sum, sums[i], static_cast<z_off_t>(part(i).size()));
  }
  return sum;
}

}  // namespace

absl::StatusOr<SafetensorsContent> ParseSafetensors(std::span<const std::byte> file,
                                                    std::string_view source) {
  const Reporter report(source);
  absl::StatusOr<uint64_t> header_length = HeaderLength(file, report);
  if (!header_length.ok()) return header_length.status();
  const uint64_t data_start = kLengthBytes + *header_length;
  const std::string_view text(reinterpret_cast<const char*>(file.data()) + kLengthBytes,
                              *header_length);
  const std::span<const std::byte> data = file.subspan(data_start);

  absl::StatusOr<json> header = ParseJsonObject(
      text, absl::StrCat(std::string(source), ": the header at offset 8"), kHeaderLimits);
  if (!header.ok()) return header.status();

  SafetensorsContent content;
  std::vector<Extent> extents;
  for (const auto& [name, info] : header->items()) {
    absl::Status status = name == "__metadata__"
                              ? ReadMetadata(info, report, content)
                              : ReadTensor(name, info, data, report, content, extents);
    if (!status.ok()) return status;
  }
  absl::Status tiling = CheckTiling(extents, data_start, data.size(), report);
  if (!tiling.ok()) return tiling;
  return content;
}

absl::StatusOr<std::unique_ptr<SafetensorsFile>> SafetensorsFile::Open(const std::string& path) {
  absl::StatusOr<OpenedFile> file = OpenRegularFile(path);
  if (!file.ok()) return file.status();
  absl::Cleanup closer = [&] { close(file->descriptor); };  // the mapping outlives the descriptor

  std::span<const std::byte> mapping;
  if (file->size > 0) {
    void* address =
        mmap(nullptr, static_cast<size_t>(file->size), PROT_READ, MAP_PRIVATE, file->descriptor, 0);
    if (address == MAP_FAILED) return absl::ErrnoToStatus(errno, absl::StrCat("cannot map ", path));
    mapping = {static_cast<const std::byte*>(address), static_cast<size_t>(file->size)};
  }
  std::unique_ptr<SafetensorsFile> result(new SafetensorsFile(path, mapping));
  absl::StatusOr<SafetensorsContent> content = ParseSafetensors(mapping, path);
  if (!content.ok()) return content.status();
  result->content_ = *std::move(content);
  return result;
}

SafetensorsFile::SafetensorsFile(std::string path, std::span<const std::byte> mapping)
    : path_(std::move(path)), mapping_(mapping) {}

SafetensorsFile::~SafetensorsFile() {
  if (!mapping_.empty()) munmap(const_cast<std::byte*>(mapping_.data()), mapping_.size());
}

const HostTensor* SafetensorsFile::Find(std::string_view name) const {
  const auto found = content_.tensors.find(name);
  return found == content_.tensors.end() ? nullptr : &found->second;
}

absl::Status SafetensorsFile::CheckIntegrity(std::string_view name, const HostTasks& tasks) const {
  const HostTensor* tensor = Find(name);
  const auto expected = content_.metadata.find(absl::StrCat("crc32.", std::string(name)));
  if (tensor == nullptr || expected == content_.metadata.end()) return absl::OkStatus();
  const std::string found = absl::StrFormat(
      "%08x", Crc32({static_cast<const std::byte*>(tensor->data), tensor->ByteSize()}, tasks));
  if (found == expected->second) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(path_, ": tensor ", Quoted(name), " at offset ",
                                          Offset(*tensor), " is damaged: its CRC-32 is ", found,
                                          ", must be ", expected->second));
}

void SafetensorsFile::ReadAhead(std::ptrdiff_t offset, std::ptrdiff_t size) const {
  const auto page = static_cast<std::ptrdiff_t>(sysconf(_SC_PAGESIZE));
  const std::ptrdiff_t begin = offset / page * page;
  const std::ptrdiff_t end = std::min(std::ssize(mapping_), offset + size);
  if (end <= begin) return;
  // Only a hint, so errors are ignored: without it pages are read one fault after the other.
  madvise(const_cast<std::byte*>(mapping_.data()) + begin, static_cast<size_t>(end - begin),
          MADV_WILLNEED);
}

}  // namespace tvq
