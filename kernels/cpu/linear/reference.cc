#include "kernels/cpu/linear/reference.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "kernels/cpu/cpu_ops.h"
#include "kernels/numbers/int4.h"
#include "kernels/ops/linear.h"

namespace tvq {

namespace {

// A byte a value, and scales [out, groups] of float32.
absl::Status PackInt4(Device& device, std::span<const HostMatrix> parts, LinearWeight& weight) {
  const int64_t groups = Int4Groups(weight.in);
  absl::StatusOr<Buffer> data = device.Allocate(static_cast<size_t>(weight.out * weight.in));
  if (!data.ok()) return data.status();
  absl::StatusOr<Buffer> scales =
      device.Allocate(static_cast<size_t>(weight.out * groups) * sizeof(float));
  if (!scales.ok()) return scales.status();
  auto* q = data->as<int8_t>();
  auto* scale = scales->as<float>();
  for (const HostMatrix& part : parts) {
    for (int64_t o = 0; o < part.out; ++o) {
      for (int64_t first = 0; first < part.in; first += kInt4Group) {
        const int64_t count = std::min(part.in - first, kInt4Group);
        float values[kInt4Group];
        ReadValues(part, o, first, count, values);
        *scale++ = ToFloat(QuantizeGroup({values, static_cast<size_t>(count)}, q));
        q += count;
      }
    }
  }
  weight.data = *std::move(data);
  weight.scales = *std::move(scales);
  return absl::OkStatus();
}

template <typename T>
void CopyRows(std::span<const HostMatrix> parts, T* to) {
  for (const HostMatrix& part : parts) {
    for (int64_t o = 0; o < part.out; ++o, to += part.in) ReadValues(part, o, 0, part.in, to);
  }
}

}  // namespace

absl::Status ReferencePackRows(Device& device, const PackRowsArgs& args) {
  const std::span<const HostMatrix> parts = args.parts;
  const DType dtype = args.dtype;
  LinearWeight& weight = *args.packed = {.in = parts[0].in, .dtype = dtype};
  for (const HostMatrix& part : parts) weight.out += part.out;
  if (dtype == DType::kInt4) return PackInt4(device, parts, weight);
  absl::StatusOr<Buffer> data =
      device.Allocate(static_cast<size_t>(weight.out * weight.in) * SizeOf(dtype));
  if (!data.ok()) return data.status();
  weight.data = *std::move(data);
  if (dtype == DType::kFloat32) {
    CopyRows(parts, weight.data.as<float>());
  } else if (dtype == DType::kBFloat16) {
    CopyRows(parts, weight.data.as<BFloat16>());
  } else {
    CopyRows(parts, weight.data.as<int8_t>());
  }
  return absl::OkStatus();
}

absl::Status ReferenceLinear(Device&, const LinearArgs& args) {
  for (int64_t n = 0; n < args.x.dim(0); ++n) {
    for (int64_t o = 0; o < args.weight->out; ++o) {
      double y = ReferenceDot(args.x.row(n), *args.weight, o);
      if (!args.bias.empty()) y += args.bias.data[o];
      y *= args.scale;
      y = ReferenceActivation(args.activation, y);
      float& out = args.y.row(n)[o];
      out = static_cast<float>(args.accumulate ? out + y : y);
    }
  }
  return absl::OkStatus();
}

absl::Status ReferenceGatedOutput(Device&, const GatedOutputArgs& args) {
  std::vector<float> gated(static_cast<size_t>(args.weight->in));
  for (int64_t n = 0; n < args.o.dim(0); ++n) {
    for (size_t i = 0; i < gated.size(); ++i) gated[i] = args.o.row(n)[i] * args.g.row(n)[i];
    for (int64_t o = 0; o < args.weight->out; ++o) {
      float& out = args.y.row(n)[o];
      const double bias = args.bias.empty() ? 0.0 : args.bias.data[o];
      out = static_cast<float>(out + ReferenceDot(gated.data(), *args.weight, o) + bias);
    }
  }
  return absl::OkStatus();
}

}  // namespace tvq
