#include "kernels/ops/check.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace tvq {
namespace {

std::string ShapeText(std::span<const int64_t> shape) {
  return absl::StrCat("[", absl::StrJoin(shape.begin(), shape.end(), ","), "]");
}

}  // namespace

absl::Status ArgumentError(std::string_view op, std::string_view message) {
  return absl::InvalidArgumentError(absl::StrCat(std::string(op), ": ", std::string(message)));
}

absl::Status CheckShape(std::string_view op, std::string_view argument, const void* data,
                        std::span<const int64_t> found, std::span<const int64_t> expected) {
  if (!std::equal(found.begin(), found.end(), expected.begin(), expected.end())) {
    return ArgumentError(op, absl::StrCat(std::string(argument), " is ", ShapeText(found),
                                          ", expected ", ShapeText(expected)));
  }
  const bool has_elements = std::find(found.begin(), found.end(), 0) == found.end();
  if (data == nullptr && has_elements) {
    return ArgumentError(
        op, absl::StrCat(std::string(argument), " has no data, expected ", ShapeText(expected)));
  }
  return absl::OkStatus();
}

absl::Status CheckSize(std::string_view op, std::string_view argument, size_t found,
                       int64_t expected) {
  if (static_cast<int64_t>(found) == expected) return absl::OkStatus();
  return ArgumentError(
      op, absl::StrCat(std::string(argument), " has ", found, " entries, expected ", expected));
}

absl::Status CheckChunk(std::string_view op, int64_t rows, int64_t chunk_rows) {
  if (chunk_rows == 0 || (chunk_rows > 0 && rows <= chunk_rows)) return absl::OkStatus();
  return ArgumentError(
      op, absl::StrCat("x has ", rows, " rows, expected at most ", chunk_rows, ", a chunk's"));
}

absl::Status CheckHeads(std::string_view op, std::string_view argument, int64_t heads,
                        int64_t kv_heads) {
  if (heads > 0 && heads % kv_heads == 0) return absl::OkStatus();
  return ArgumentError(op, absl::StrCat(std::string(argument), " has ", heads,
                                        " heads, expected a multiple of the shape's ", kv_heads,
                                        " key/value heads"));
}

absl::Status CheckPosition(std::string_view op, std::string_view argument, int64_t position) {
  if (position >= 0) return absl::OkStatus();
  return ArgumentError(
      op, absl::StrCat(std::string(argument), " is ", position, ", expected 0 or more"));
}

absl::Status CheckIds(std::string_view op, std::span<const int32_t> ids, int64_t vocab) {
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] < 0 || ids[i] >= vocab) {
      return ArgumentError(op,
                           absl::StrCat("ids[", i, "] is ", ids[i], ", expected 0 to ", vocab - 1));
    }
  }
  return absl::OkStatus();
}

}  // namespace tvq
