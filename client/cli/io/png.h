// PNG files of 8 bits a sample, grey or RGB: what image models draw (ISO/IEC 15948).
#ifndef TVQ_CLIENT_CLI_IO_PNG_H_
#define TVQ_CLIENT_CLI_IO_PNG_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace tvq::cli {

// Samples [height][width][channels], row by row; 1 channel is grey, 3 are RGB.
struct Bitmap {
  int32_t height = 0;
  int32_t width = 0;
  int32_t channels = 1;
  std::string samples;
};

// The samples must be as many as the shape says.
std::string EncodePng(const Bitmap& bitmap);

// INVALID_ARGUMENT for what is no PNG, is damaged, is larger than 4096 x 4096 or is of another kind
// (palette, alpha, 16 bits, interlaced); `name` begins the message.
absl::StatusOr<Bitmap> DecodePng(std::string_view bytes, std::string_view name);

}  // namespace tvq::cli

#endif  // TVQ_CLIENT_CLI_IO_PNG_H_
