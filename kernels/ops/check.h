// The checks that kernels/ops make before they call a backend. Messages name the op, the argument,
// what was found and what was expected.
#ifndef TVQ_KERNELS_OPS_CHECK_H_
#define TVQ_KERNELS_OPS_CHECK_H_

#include <array>
#include <initializer_list>
#include <span>
#include <string_view>
#include <type_traits>

#include "absl/status/status.h"
#include "kernels/device/tensor.h"
#include "kernels/ops/ops.h"

namespace tvq {

// Checks of an op's arguments. Each is defined in the op's own source file.
#define TVQ_OP(entry, Name, ...) \
  absl::Status CheckArgs(const Device& device, const Name##Args& args);
TVQ_OPS(TVQ_OP, )
#undef TVQ_OP

// Error "Linear: y is [3,5], expected [3,7]". A tensor that is not empty must have data.
absl::Status CheckShape(std::string_view op, std::string_view argument, const void* data,
                        std::span<const int64_t> found, std::span<const int64_t> expected);

template <typename T, int R>
absl::Status CheckShape(std::string_view op, std::string_view argument, const Tensor<T, R>& tensor,
                        const std::type_identity_t<std::array<int64_t, R>>& expected) {
  return CheckShape(op, argument, tensor.data, std::span<const int64_t>(tensor.shape),
                    std::span<const int64_t>(expected));
}

// Like CheckShape, but an argument without data passes: it is optional.
template <typename T, int R>
absl::Status CheckOptional(std::string_view op, std::string_view argument,
                           const Tensor<T, R>& tensor,
                           const std::type_identity_t<std::array<int64_t, R>>& expected) {
  return tensor.empty() ? absl::OkStatus() : CheckShape(op, argument, tensor, expected);
}

// "TokenLogprobs: targets has 3 entries, expected 4".
absl::Status CheckSize(std::string_view op, std::string_view argument, size_t found,
                       int64_t expected);

// Checks that a chunk of `chunk_rows` rows holds `rows`, unless `chunk_rows` is 0: "Linear: x has
// 65 rows, expected at most 64, a chunk's".
absl::Status CheckChunk(std::string_view op, int64_t rows, int64_t chunk_rows);

// `argument` has a head or several for each key/value head: "VqDecodeAttention: q has 3 heads,
// expected a multiple of the shape's 2 key/value heads". kv_heads is above 0.
absl::Status CheckHeads(std::string_view op, std::string_view argument, int64_t heads,
                        int64_t kv_heads);

// "VqDecodeAttention: position is -1, expected 0 or more".
absl::Status CheckPosition(std::string_view op, std::string_view argument, int64_t position);

// Every id lies in [0, vocab): "Embedding: ids[3] is 300, expected 0 to 258". ids: host memory.
absl::Status CheckIds(std::string_view op, std::span<const int32_t> ids, int64_t vocab);

// INVALID_ARGUMENT "<op>: <message>".
absl::Status ArgumentError(std::string_view op, std::string_view message);

// The first error of several checks.
inline absl::Status FirstError(std::initializer_list<absl::Status> checks) {
  for (const absl::Status& status : checks) {
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace tvq

#endif  // TVQ_KERNELS_OPS_CHECK_H_
