#include "kernels/ops/attention/page_check.h"

#include "absl/strings/str_cat.h"
#include "kernels/ops/check.h"

namespace tvq {
namespace {

constexpr int64_t kAlignment = 64;

}  // namespace

absl::Status CheckKeyValueShape(const char* op, const KeyValueShape& shape, int64_t offset) {
  if (shape.dtype != DType::kFloat32 && shape.dtype != DType::kBFloat16) {
    return ArgumentError(op, absl::StrCat("keys and values are ", Name(shape.dtype),
                                          ", expected float32 or bfloat16"));
  }
  if (shape.kv_heads <= 0 || shape.key <= 0 || shape.value <= 0) {
    return ArgumentError(op,
                         absl::StrCat("shape has ", shape.kv_heads, " key/value heads, ", shape.key,
                                      " keys and ", shape.value, " values, expected each above 0"));
  }
  if (offset < 0 || offset % kAlignment != 0) {
    return ArgumentError(
        op, absl::StrCat("layer_offset is ", offset, ", expected a multiple of ", kAlignment));
  }
  return absl::OkStatus();
}

absl::Status CheckPages(const char* op, const KeyValuePages& pages, int64_t last) {
  const int64_t needed = last / kKeyValuePage + 1;
  if (pages.pages == nullptr || pages.count < needed) {
    return ArgumentError(
        op, absl::StrCat("position ", last, " lies beyond the session's ",
                         pages.pages == nullptr ? 0 : pages.count, " pages, expected ", needed,
                         " of ", kKeyValuePage, " positions each"));
  }
  for (int64_t p = 0; p < needed; ++p) {
    const void* const page = pages.pages[p];
    if (page == nullptr) return ArgumentError(op, absl::StrCat("page ", p, " is null"));
    if (reinterpret_cast<uintptr_t>(page) % kAlignment != 0) {
      return ArgumentError(
          op, absl::StrCat("page ", p, " does not start at a multiple of ", kAlignment, " bytes"));
    }
  }
  return absl::OkStatus();
}

}  // namespace tvq
