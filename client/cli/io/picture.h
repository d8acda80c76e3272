// Images of pixel models: token ids to samples of a PNG and back.
#ifndef TVQ_CLIENT_CLI_IO_PICTURE_H_
#define TVQ_CLIENT_CLI_IO_PICTURE_H_

#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "client/cli/io/png.h"
#include "tvq/v1/model.pb.h"

namespace tvq::cli {

// INVALID_ARGUMENT if the model's tokens are no pixels.
absl::Status CheckDraws(const v1::Model& model);

// Tokens of a whole image.
int64_t TokensOf(const v1::ImageShape& shape);

// The ids of the first `rows` rows of a bitmap of the shape's size. INVALID_ARGUMENT, naming `name`
// and both sizes, where it is of another.
absl::StatusOr<std::vector<int32_t>> TokensOf(const Bitmap& bitmap, const v1::ImageShape& shape,
                                              int64_t rows, std::string_view name);

struct SheetOptions {
  int32_t columns = 1;
  int32_t scale = 1;  // a pixel becomes so many squared
  int32_t gap = 0;    // pixels between two images, white
};

// Images beside and below each other. Each is the ids of at most a whole image; what it lacks is
// the lowest level.
Bitmap Sheet(const std::vector<std::vector<int32_t>>& images, const v1::ImageShape& shape,
             const SheetOptions& options);

}  // namespace tvq::cli

#endif  // TVQ_CLIENT_CLI_IO_PICTURE_H_
