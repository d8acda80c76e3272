#include "client/cli/io/picture.h"

#include <algorithm>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace tvq::cli {
namespace {

std::string SizeText(int32_t height, int32_t width, int32_t channels) {
  return absl::StrCat(width, " x ", height, channels == 1 ? " grey" : " RGB");
}

// Levels are spread over 0..255.
char SampleOf(int32_t id, const v1::ImageShape& shape) {
  const int32_t highest = std::max(1, shape.levels() - 1);
  const int32_t level = std::clamp(id - shape.first_token_id(), 0, highest);
  return static_cast<char>((level * 255 + highest / 2) / highest);
}

int32_t LevelOf(char sample, const v1::ImageShape& shape) {
  const int32_t highest = std::max(1, shape.levels() - 1);
  return (static_cast<int32_t>(static_cast<uint8_t>(sample)) * highest + 127) / 255;
}

}  // namespace

absl::Status CheckDraws(const v1::Model& model) {
  if (model.has_image()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "--model: the tokens of ", model.name(), " are no pixels, they are of the tokenizer ",
      model.tokenizer(), "; it must be a model of the tokenizer pixels (tvq info lists them)"));
}

int64_t TokensOf(const v1::ImageShape& shape) {
  return static_cast<int64_t>(shape.height()) * shape.width() * shape.channels();
}

absl::StatusOr<std::vector<int32_t>> TokensOf(const Bitmap& bitmap, const v1::ImageShape& shape,
                                              int64_t rows, std::string_view name) {
  if (bitmap.height != shape.height() || bitmap.width != shape.width() ||
      bitmap.channels != shape.channels()) {
    return absl::InvalidArgumentError(absl::StrCat(
        std::string(name), " is ", SizeText(bitmap.height, bitmap.width, bitmap.channels),
        "; the model's images are ", SizeText(shape.height(), shape.width(), shape.channels())));
  }
  const std::string_view kept =
      std::string_view(bitmap.samples).substr(0, rows * shape.width() * shape.channels());
  std::vector<int32_t> ids;
  ids.reserve(kept.size());
  for (const char sample : kept) ids.push_back(shape.first_token_id() + LevelOf(sample, shape));
  return ids;
}

Bitmap Sheet(const std::vector<std::vector<int32_t>>& images, const v1::ImageShape& shape,
             const SheetOptions& options) {
  const int32_t count = static_cast<int32_t>(images.size());
  const int32_t columns = std::clamp(options.columns, 1, std::max(1, count));
  const int32_t rows = (count + columns - 1) / columns;
  const int32_t scale = options.scale, step_x = shape.width() * scale + options.gap;
  const int32_t step_y = shape.height() * scale + options.gap;
  Bitmap sheet{rows * step_y - options.gap, columns * step_x - options.gap, shape.channels(), ""};
  sheet.samples.assign(static_cast<size_t>(sheet.height) * sheet.width * sheet.channels, '\xff');
  for (int32_t n = 0; n < count; ++n) {
    const int32_t top = n / columns * step_y, left = n % columns * step_x;
    for (int32_t y = 0; y < shape.height() * scale; ++y) {
      for (int32_t x = 0; x < shape.width() * scale; ++x) {
        for (int32_t c = 0; c < shape.channels(); ++c) {
          const size_t from =
              (static_cast<size_t>(y / scale) * shape.width() + x / scale) * shape.channels() + c;
          const size_t to =
              (static_cast<size_t>(top + y) * sheet.width + left + x) * sheet.channels + c;
          sheet.samples[to] = from < images[n].size() ? SampleOf(images[n][from], shape) : '\0';
        }
      }
    }
  }
  return sheet;
}

}  // namespace tvq::cli
