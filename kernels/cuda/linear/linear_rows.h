// Every projection: which rows, by which weight, and where the outputs go.
#ifndef TVQ_KERNELS_CUDA_LINEAR_LINEAR_ROWS_H_
#define TVQ_KERNELS_CUDA_LINEAR_LINEAR_ROWS_H_

#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/cuda/platform.h"
#include "kernels/ops/linear.h"
#include "kernels/ops/qkvg_projection.h"

namespace tvq::TVQ_CUDA {

// A row of a weight, and of what it is multiplied with, takes a multiple of 64 elements, so that
// 16-byte loads and matrix instructions need no tail. The rest is zero.
constexpr int64_t kRowElements = 64;
constexpr int64_t RowStride(int64_t in) {
  return (in + kRowElements - 1) / kRowElements * kRowElements;
}

// What x becomes before the product: x as it is, x * gate, or its norm with gain and bias.
struct RowSource {
  Matrix<const float> x;        // [N, in]
  const float* gate = nullptr;  // [N, in]
  std::optional<Norm> norm;
  const float* gain = nullptr;  // [in], of the norm
  const float* bias = nullptr;  // [in]
  int64_t chunk_rows = 0;  // rows of a prompt's whole chunk, of which the call has N; 0: decode
};

// Outputs [first, first + count) of a weight go to y, rows of `stride` floats.
struct OutputColumns {
  int64_t first = 0;
  int64_t count = 0;
  float* y = nullptr;
  int64_t stride = 0;
  Activation activation = Activation::kNone;
};

// The norm of query and key heads, which are the first outputs: `heads` heads of queries in q_u,
// then `kv_heads` heads of keys in k. As projected, they become rms_per_head(.) * scale; if there
// are u and w, q_u and q_w are the normed queries with u and w added
// (kernels/ops/qkvg_projection.h).
struct HeadNorm {
  int64_t heads = 0;  // none: no norm
  int64_t kv_heads = 0;
  int64_t width = 0;  // of a head
  float scale = 1;
  const float* u = nullptr;  // [heads, width]
  const float* w = nullptr;
  float* q_u = nullptr;  // [N, heads, width]
  float* q_w = nullptr;
  float* k = nullptr;  // [N, kv_heads, width]
};

struct LinearRun {
  static constexpr int kMostColumns = 4;

  RowSource source;
  const LinearWeight* weight = nullptr;
  const float* bias = nullptr;  // [out]
  float scale = 1;
  bool accumulate = false;
  OutputColumns columns[kMostColumns];  // in order, all outputs
  int column_count = 0;
  HeadNorm heads;  // none where chunk_rows is above 0

  int64_t rows() const { return source.x.dim(0); }
};

// Uses the device's scratch slots 0 to 2, and its tickets.
absl::Status RunLinear(Device& device, const LinearRun& run);
// What RunLinear does for chunk_rows above 0.
absl::Status RunChunkLinear(Device& device, const LinearRun& run);

// Returns the prepared rows [max(N, chunk_rows)][RowStride(in)], float32 for a float32 weight and
// bfloat16 for the others, in the device's scratch memory of slot 0. `dtype`: the weight's. Rows
// from N on are zero.
absl::StatusOr<const void*> PrepareRows(Device& device, const RowSource& source, DType dtype);

}  // namespace tvq::TVQ_CUDA

#endif  // TVQ_KERNELS_CUDA_LINEAR_LINEAR_ROWS_H_
