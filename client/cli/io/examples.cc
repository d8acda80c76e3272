#include "client/cli/io/examples.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace tvq::cli {
namespace {

constexpr std::string_view kPngBegin("\x89PNG", 4);
constexpr std::string_view kIdxBegin("\0\0\x08\x03", 4);  // unsigned bytes, three dimensions
constexpr size_t kIdxHeader = 16;
constexpr int64_t kMostPixels = 4096;  // of a side, as of a PNG

absl::Status Wrong(std::string_view name, std::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat(std::string(name), std::string(why)));
}

int64_t BigEndian(std::string_view bytes, size_t at) {
  int64_t value = 0;
  for (size_t i = at; i < at + 4; ++i) value = value << 8 | static_cast<unsigned char>(bytes[i]);
  return value;
}

absl::StatusOr<std::vector<Bitmap>> ParseIdx(std::string_view bytes, std::string_view name) {
  const auto cut = [&] { return Wrong(name, ": an idx file that ends too early"); };
  if (bytes.size() < kIdxHeader) return cut();
  const int64_t count = BigEndian(bytes, 4), height = BigEndian(bytes, 8),
                width = BigEndian(bytes, 12);
  if (height < 1 || width < 1 || height > kMostPixels || width > kMostPixels) {
    return Wrong(name, absl::StrCat(": images of ", height, " x ", width,
                                    " pixels; sides may be 1 to ", kMostPixels));
  }
  const size_t size = static_cast<size_t>(height * width);
  bytes.remove_prefix(kIdxHeader);
  if (bytes.size() / size < static_cast<size_t>(count)) return cut();
  std::vector<Bitmap> images;
  for (int64_t i = 0; i < count; ++i, bytes.remove_prefix(size)) {
    images.push_back({static_cast<int32_t>(height), static_cast<int32_t>(width), 1,
                      std::string(bytes.substr(0, size))});
  }
  if (!bytes.empty()) {
    return Wrong(name, absl::StrCat(": ", bytes.size(), " bytes behind its ", count, " images"));
  }
  return images;
}

}  // namespace

absl::StatusOr<std::vector<Pair>> ParsePairs(std::string_view bytes, std::string_view name) {
  std::vector<Pair> pairs;
  for (int64_t number = 1; !bytes.empty(); ++number) {
    const size_t end = std::min(bytes.find('\n'), bytes.size());
    std::string_view line = bytes.substr(0, end);
    bytes.remove_prefix(std::min(end + 1, bytes.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);  // as lines end on Windows
    if (line.empty()) continue;
    const size_t tab = line.find('\t');
    if (tab == 0 || tab >= line.size() - 1 || line.find('\t', tab + 1) != line.npos) {
      return Wrong(name,
                   absl::StrCat(": line ", number, " is not two texts with a tab between them"));
    }
    pairs.push_back({.first = std::string(line.substr(0, tab)),
                     .second = std::string(line.substr(tab + 1)),
                     .line = number});
  }
  if (pairs.empty()) return Wrong(name, ": holds no pairs");
  return pairs;
}

absl::StatusOr<std::vector<Bitmap>> ParseImages(std::string_view bytes, std::string_view name) {
  if (bytes.starts_with(kIdxBegin)) return ParseIdx(bytes, name);
  if (!bytes.starts_with(kPngBegin)) {
    return Wrong(name, ": neither a PNG file nor an idx file of images; unpack it if it is packed");
  }
  absl::StatusOr<Bitmap> image = DecodePng(bytes, name);
  if (!image.ok()) return image.status();
  return std::vector<Bitmap>{*std::move(image)};
}

}  // namespace tvq::cli
