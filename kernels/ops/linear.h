// Projections by packed weights.
//
// One packed layout serves decode (1..64 rows, bound by the bytes of the weights) and prefill
// (hundreds of rows, bound by arithmetic). An output element is summed in an order that depends on
// `in` alone, never on the number of rows, of threads or on what else is in the batch: a row's bits
// are the same in any batch.
#ifndef TVQ_KERNELS_OPS_LINEAR_H_
#define TVQ_KERNELS_OPS_LINEAR_H_

#include <span>

#include "absl/status/statusor.h"
#include "kernels/device/memory.h"
#include "kernels/device/tensor.h"
#include "kernels/numbers/host_matrix.h"
#include "kernels/ops/ops.h"

namespace tvq {

// A matrix [out, in] in the layout of the device that packed it.
struct LinearWeight {
  int64_t out = 0;
  int64_t in = 0;
  DType dtype = DType::kFloat32;
  Buffer data;
  Buffer scales;  // int8: [out] float32 on every backend; int4: in a layout of the backend's own

  int64_t bytes() const { return static_cast<int64_t>(data.bytes() + scales.bytes()); }
};

// Packs the rows of several matrices of equal `in`, one below the other, as one weight of `dtype`,
// on all the threads that the device has. For bfloat16, values are rounded to nearest even. For
// int8, they are quantized row by row (kernels/numbers/int8.h), by the matrix's own scales if it
// has any. For int4, they are quantized in groups (kernels/numbers/int4.h, which says how large
// they may be). The values of an int8 matrix are taken as they are for int8, and as scale * q
// otherwise. Rows that become int8 must be finite, else INVALID_ARGUMENT.
absl::StatusOr<LinearWeight> PackLinear(Device& device, std::span<const HostMatrix> parts,
                                        DType dtype);

// The part of PackLinear that a backend does. For int8 that is all but `scales`; all matrices have
// scales then.
struct PackRowsArgs {
  std::span<const HostMatrix> parts;
  DType dtype = DType::kFloat32;
  LinearWeight* packed = nullptr;
};

// `chunk_rows` says where the rows of a call come from. 0: from different requests, as in decode.
// Otherwise they come from one request's prompt, and `chunk_rows` is the number of rows of a whole
// chunk (the model's prefill_chunk); the call has at most so many. A device may then use a library
// to compute the whole chunk, with zeros in place of missing rows. A row's bits then depend on
// chunk_rows and its place in the chunk, too, but on no other row.

// kGelu: 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))), its tanh form (Hendrycks, Gimpel 2016).
// kSquaredRelu: max(x, 0)^2.
enum class Activation : uint8_t { kNone, kSilu, kGelu, kTanh, kSigmoid, kSquaredRelu };
inline constexpr float kGeluScale = 0.7978845608F;  // sqrt(2/pi)
inline constexpr float kGeluCubic = 0.044715F;

// y = act(scale * (x W^T + bias)) (+ y when accumulate). x [N, in], W [out, in], bias [out] or
// empty, y [N, out]. For a bfloat16 weight, x is rounded to bfloat16 and products are accumulated
// in float32. For an int8 weight, which is scale * q, x may be rounded by up to 2^-8 of itself or
// 2^-15 of 1.004 max |x| of its row, and the sum of x q is multiplied by the weight row's scale. If
// any x of a row is not finite, no output of the row is. The same holds for an int4 weight, where
// the sum of each group is multiplied by the group's scale.
//
// The MLP of a standard block, z = y + gelu(n W1^T + b1) W2^T + b2 with n = LayerNorm(y), is two of
// these: the first into hidden [N, F] with b1 and kGelu, the second from there with b2, accumulated
// on y. The output projection of such a block, y = x + o Wo^T, is one that accumulates on x.
struct LinearArgs {
  Matrix<const float> x;
  const LinearWeight* weight = nullptr;
  Vector<const float> bias;
  float scale = 1;
  Activation activation = Activation::kNone;
  bool accumulate = false;
  Matrix<float> y;
  int64_t chunk_rows = 0;
};

// y += (o * g) W^T + bias: the output projection of a gated attention unit with its residual, and
// of a gated MLP. o, g [N, in], W [out, in], bias [out] or empty, y [N, out].
struct GatedOutputArgs {
  Matrix<const float> o;
  Matrix<const float> g;
  const LinearWeight* weight = nullptr;
  Matrix<float> y;
  int64_t chunk_rows = 0;
  Vector<const float> bias;
};

}  // namespace tvq

#endif  // TVQ_KERNELS_OPS_LINEAR_H_
