// Files of many independent examples, each scored as a context of its own.
#ifndef TVQ_CLIENT_CLI_IO_EXAMPLES_H_
#define TVQ_CLIENT_CLI_IO_EXAMPLES_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "client/cli/io/png.h"

namespace tvq::cli {

struct Pair {
  std::string first, second;
  int64_t line = 0;  // of the file, from 1
};

// Each line has two texts in UTF-8 with a tab between them. The last one may lack its end, lines
// may end as on Windows, and empty lines are skipped. INVALID_ARGUMENT, naming `name` and the line,
// for a line that is not so, and also where there is no pair.
absl::StatusOr<std::vector<Pair>> ParsePairs(std::string_view bytes, std::string_view name);

// The images of a PNG file, which is one, or of an idx file of bytes in three dimensions, as MNIST
// is kept (yann.lecun.com/exdb/mnist): grey, all of one size. INVALID_ARGUMENT, beginning with
// `name`, for what is neither or is damaged.
absl::StatusOr<std::vector<Bitmap>> ParseImages(std::string_view bytes, std::string_view name);

}  // namespace tvq::cli

#endif  // TVQ_CLIENT_CLI_IO_EXAMPLES_H_
