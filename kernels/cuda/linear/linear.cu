// y = act(scale * (x W^T + bias)) (+ y), and y += (o * g) W^T (kernels/ops/linear.h): weights as
// they lie on a GPU, and the two ops as calls of RunLinear (run_linear.cu).
//
// x, o and g [N, in], y [N, out], W [out, in] row-major, rows padded to 64 elements.
#include <vector>

#include "kernels/cuda/cuda_device.h"
#include "kernels/cuda/cuda_ops.h"
#include "kernels/cuda/linear/linear_rows.h"
#include "kernels/ops/linear.h"

namespace tvq::TVQ_CUDA {
namespace {

template <typename T>
absl::Status UploadRows(Device& device, std::span<const HostMatrix> parts, LinearWeight& weight) {
  const int64_t stride = RowStride(weight.in);
  std::vector<T> rows(static_cast<size_t>(weight.out * stride));
  T* to = rows.data();
  for (const HostMatrix& part : parts) {
    device.RunOnHost(part.out,
                     [&](int64_t row) { ReadValues(part, row, 0, part.in, to + row * stride); });
    to += part.out * stride;
  }
  absl::StatusOr<Buffer> data = AsCuda(device).Upload<T>(rows);
  if (!data.ok()) return data.status();
  weight.data = *std::move(data);
  return absl::OkStatus();
}

}  // namespace

absl::Status CudaPackRows(Device& device, const PackRowsArgs& args) {
  const std::span<const HostMatrix> parts = args.parts;
  LinearWeight& weight = *args.packed = {.in = parts[0].in, .dtype = args.dtype};
  for (const HostMatrix& part : parts) weight.out += part.out;
  switch (args.dtype) {
    case DType::kFloat32:
      return UploadRows<float>(device, parts, weight);
    case DType::kBFloat16:
      return UploadRows<BFloat16>(device, parts, weight);
    case DType::kInt8:
      return UploadRows<int8_t>(device, parts, weight);
    case DType::kInt4:
      break;
  }
  return absl::UnimplementedError(
      "PackLinear: weights are int4, which the CPU alone multiplies; a GPU takes float32, "
      "bfloat16 and int8");
}

absl::Status CudaLinear(Device& device, const LinearArgs& args) {
  if (args.y.empty()) return absl::OkStatus();
  const int64_t out = args.weight->out;
  return RunLinear(device, {.source = {.x = args.x, .chunk_rows = args.chunk_rows},
                            .weight = args.weight,
                            .bias = args.bias.data,
                            .scale = args.scale,
                            .accumulate = args.accumulate,
                            .columns = {{0, out, args.y.data, out, args.activation}},
                            .column_count = 1});
}

absl::Status CudaGatedOutput(Device& device, const GatedOutputArgs& args) {
  if (args.y.empty()) return absl::OkStatus();
  const int64_t out = args.weight->out;
  return RunLinear(device,
                   {.source = {.x = args.o, .gate = args.g.data, .chunk_rows = args.chunk_rows},
                    .weight = args.weight,
                    .bias = args.bias.data,
                    .accumulate = true,
                    .columns = {{0, out, args.y.data, out, Activation::kNone}},
                    .column_count = 1});
}

}  // namespace tvq::TVQ_CUDA
