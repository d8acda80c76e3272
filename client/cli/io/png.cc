#include "client/cli/io/png.h"

#include <zlib.h>

#include <cstdlib>
#include <optional>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace tvq::cli {
namespace {

constexpr std::string_view kSignature("\x89PNG\r\n\x1a\n", 8);
constexpr int64_t kLongestSide = 4096;  // a damaged header must not ask for the whole memory
constexpr size_t kHeaderSize = 13;

using Bytes = const unsigned char*;
Bytes AsBytes(std::string_view text) { return reinterpret_cast<Bytes>(text.data()); }

std::string BigEndian(uint32_t value) {
  return {static_cast<char>(value >> 24), static_cast<char>(value >> 16),
          static_cast<char>(value >> 8), static_cast<char>(value)};
}

uint32_t ReadBigEndian(std::string_view four) {
  const Bytes b = AsBytes(four);
  return static_cast<uint32_t>(b[0]) << 24 | static_cast<uint32_t>(b[1]) << 16 |
         static_cast<uint32_t>(b[2]) << 8 | b[3];
}

uint32_t Crc(std::string_view text) {
  return static_cast<uint32_t>(crc32(0, AsBytes(text), static_cast<uInt>(text.size())));
}

std::string Chunk(std::string_view type, std::string_view data) {
  const std::string body = absl::StrCat(std::string(type), std::string(data));
  return absl::StrCat(BigEndian(static_cast<uint32_t>(data.size())), body, BigEndian(Crc(body)));
}

struct ChunkView {
  std::string_view type, data;
};

// Takes the next chunk off `bytes`; nothing if it is cut off or its checksum is wrong.
std::optional<ChunkView> TakeChunk(std::string_view* bytes) {
  if (bytes->size() < 12) return std::nullopt;
  const uint32_t size = ReadBigEndian(*bytes);
  if (size > bytes->size() - 12) return std::nullopt;
  const std::string_view body = bytes->substr(4, 4 + size);
  if (Crc(body) != ReadBigEndian(bytes->substr(8 + size))) return std::nullopt;
  bytes->remove_prefix(12 + size);
  return ChunkView{body.substr(0, 4), body.substr(4)};
}

// The predictor of filter 4 (section 9.4).
int Paeth(int left, int above, int corner) {
  const int estimate = left + above - corner;
  const int to_left = std::abs(estimate - left), to_above = std::abs(estimate - above);
  const int to_corner = std::abs(estimate - corner);
  if (to_left <= to_above && to_left <= to_corner) return left;
  return to_above <= to_corner ? above : corner;
}

// Undoes the filters of all rows, [height][1 + row], a row beginning with its filter's number;
// false for a number that is none.
bool Unfilter(std::string_view filtered, Bitmap* bitmap) {
  const size_t pixel = static_cast<size_t>(bitmap->channels);
  const size_t row = pixel * static_cast<size_t>(bitmap->width);
  std::string& out = bitmap->samples;
  out.assign(row * static_cast<size_t>(bitmap->height), '\0');
  const auto at = [&](size_t index) { return static_cast<int>(static_cast<uint8_t>(out[index])); };
  for (size_t y = 0, from = 0; y < static_cast<size_t>(bitmap->height); ++y, from += row + 1) {
    const int filter = static_cast<uint8_t>(filtered[from]);
    if (filter > 4) return false;
    for (size_t x = 0; x < row; ++x) {
      const size_t here = y * row + x;
      const int left = x >= pixel ? at(here - pixel) : 0;
      const int above = y > 0 ? at(here - row) : 0;
      const int corner = x >= pixel && y > 0 ? at(here - row - pixel) : 0;
      const int predicted[] = {0, left, above, (left + above) / 2, Paeth(left, above, corner)};
      out[here] =
          static_cast<char>(static_cast<uint8_t>(filtered[from + 1 + x]) + predicted[filter]);
    }
  }
  return true;
}

// What is wrong with the header, or nothing.
std::string ReadHeader(std::string_view header, Bitmap* bitmap) {
  if (header.size() != kHeaderSize) return "has a damaged header";
  const int64_t width = ReadBigEndian(header), height = ReadBigEndian(header.substr(4));
  if (width < 1 || height < 1 || width > kLongestSide || height > kLongestSide) {
    return absl::StrCat("is ", width, " x ", height, " pixels; sides of 1 to ", kLongestSide,
                        " can be read");
  }
  const char depth = header[8], colour = header[9], interlace = header[12];
  if (depth != 8 || (colour != 0 && colour != 2) || interlace != 0) {
    return "is not of 8-bit grey or RGB samples without interlacing";
  }
  *bitmap = {static_cast<int32_t>(height), static_cast<int32_t>(width), colour == 2 ? 3 : 1, ""};
  return "";
}

}  // namespace

std::string EncodePng(const Bitmap& bitmap) {
  const size_t row = static_cast<size_t>(bitmap.width) * static_cast<size_t>(bitmap.channels);
  std::string raw;
  for (size_t begin = 0; begin < bitmap.samples.size(); begin += row) {
    raw += '\0';  // no filter
    raw.append(bitmap.samples, begin, row);
  }
  uLongf size = compressBound(raw.size());
  std::string packed(size, '\0');
  compress2(reinterpret_cast<Bytef*>(packed.data()), &size, AsBytes(raw), raw.size(),
            Z_BEST_COMPRESSION);
  packed.resize(size);
  const std::string header =
      absl::StrCat(BigEndian(static_cast<uint32_t>(bitmap.width)),
                   BigEndian(static_cast<uint32_t>(bitmap.height)),
                   std::string{8, bitmap.channels == 3 ? '\2' : '\0', 0, 0, 0});
  return absl::StrCat(std::string(kSignature), Chunk("IHDR", header), Chunk("IDAT", packed),
                      Chunk("IEND", ""));
}

absl::StatusOr<Bitmap> DecodePng(std::string_view bytes, std::string_view name) {
  const auto wrong = [&](std::string_view what) {
    return absl::InvalidArgumentError(absl::StrCat(std::string(name), " ", std::string(what)));
  };
  if (!bytes.starts_with(kSignature)) return wrong("is not a PNG file");
  bytes.remove_prefix(kSignature.size());
  Bitmap bitmap;
  std::string packed;
  for (bool first = true;; first = false) {
    const auto chunk = TakeChunk(&bytes);
    if (!chunk || first != (chunk->type == "IHDR")) return wrong("is cut off or damaged");
    if (chunk->type == "IEND") break;
    if (chunk->type == "IDAT") packed += chunk->data;
    if (!first) continue;
    if (const std::string problem = ReadHeader(chunk->data, &bitmap); !problem.empty()) {
      return wrong(problem);
    }
  }
  const size_t expected = (static_cast<size_t>(bitmap.width) * bitmap.channels + 1) *
                          static_cast<size_t>(bitmap.height);
  std::string filtered(expected, '\0');
  uLongf size = expected;
  if (uncompress(reinterpret_cast<Bytef*>(filtered.data()), &size, AsBytes(packed),
                 packed.size()) != Z_OK ||
      size != expected || !Unfilter(filtered, &bitmap)) {
    return wrong("does not hold the pixels its header promises");
  }
  return bitmap;
}

}  // namespace tvq::cli
