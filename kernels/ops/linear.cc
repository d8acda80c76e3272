#include "kernels/ops/linear.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/backend.h"
#include "kernels/int8.h"
#include "kernels/ops/check.h"

namespace tvq {
namespace {

absl::Status CheckParts(std::span<const HostMatrix> parts) {
  constexpr const char* kOp = "PackLinear";
  if (parts.empty()) return ArgumentError(kOp, "no matrix given");
  for (size_t i = 0; i < parts.size(); ++i) {
    const HostMatrix& part = parts[i];
    if (part.out < 0 || part.in <= 0 || part.in != parts[0].in) {
      return ArgumentError(kOp, absl::StrCat("parts[", i, "] is [", part.out, ",", part.in,
                                             "], expected [n,", parts[0].in, "], both above 0"));
    }
    if (part.data == nullptr && (part.quantized == nullptr || part.scales == nullptr) &&
        part.out > 0) {
      return ArgumentError(kOp, absl::StrCat("parts[", i, "] has no data"));
    }
  }
  return absl::OkStatus();
}

// The same matrices as a backend packs them: all float32, or all int8 where `dtype` is. `storage`
// holds what had to be made.
struct Storage {
  std::vector<Int8Matrix> quantized;
  std::vector<std::vector<float>> floats;
};
std::vector<HostMatrix> InFormOf(DType dtype, std::span<const HostMatrix> parts, Storage& storage) {
  std::vector<HostMatrix> same(parts.begin(), parts.end());
  for (HostMatrix& part : same) {
    if (dtype == DType::kInt8 && part.quantized == nullptr) {
      const Int8Matrix& made =
          storage.quantized.emplace_back(QuantizeRows(part.data, part.out, part.in));
      part = {nullptr, part.out, part.in, made.values.data(), made.scales.data()};
    } else if (dtype != DType::kInt8 && part.quantized != nullptr) {
      const std::vector<float>& made = storage.floats.emplace_back(
          DequantizeRows(part.quantized, part.scales, part.out, part.in));
      part = {made.data(), part.out, part.in};
    }
  }
  return same;
}

// The scales of int8 parts, one below the other.
absl::StatusOr<Buffer> PackScales(Device& device, std::span<const HostMatrix> parts) {
  std::vector<float> scales;
  for (const HostMatrix& part : parts) {
    scales.insert(scales.end(), part.scales, part.scales + part.out);
  }
  const size_t bytes = scales.size() * sizeof(float);
  absl::StatusOr<Buffer> buffer = device.Allocate(bytes);
  if (!buffer.ok()) return buffer;
  const absl::Status status = device.CopyFromHost(buffer->data(), scales.data(), bytes);
  return status.ok() ? std::move(buffer) : status;
}

absl::Status CheckWeight(const char* op, const LinearWeight* weight, int64_t out, int64_t in) {
  if (weight == nullptr) return ArgumentError(op, "weight is missing");
  if (weight->out != out || weight->in != in) {
    return ArgumentError(op, absl::StrCat("weight is [", weight->out, ",", weight->in,
                                          "], expected [", out, ",", in, "]"));
  }
  return absl::OkStatus();
}

absl::Status CheckLinear(const LinearArgs& args) {
  constexpr const char* kOp = "Linear";
  const int64_t rows = args.x.dim(0);
  const int64_t in = args.x.dim(1);
  const int64_t out = args.y.dim(1);
  return FirstError({
      CheckWeight(kOp, args.weight, out, in),
      CheckChunk(kOp, rows, args.chunk_rows),
      CheckShape(kOp, "x", args.x, {rows, in}),
      CheckOptional(kOp, "bias", args.bias, {out}),
      CheckShape(kOp, "y", args.y, {rows, out}),
  });
}

absl::Status CheckGatedOutput(const GatedOutputArgs& args) {
  constexpr const char* kOp = "GatedOutput";
  const int64_t rows = args.o.dim(0);
  const int64_t in = args.o.dim(1);
  const int64_t out = args.y.dim(1);
  return FirstError({
      CheckWeight(kOp, args.weight, out, in),
      CheckChunk(kOp, rows, args.chunk_rows),
      CheckShape(kOp, "o", args.o, {rows, in}),
      CheckShape(kOp, "g", args.g, {rows, in}),
      CheckShape(kOp, "y", args.y, {rows, out}),
  });
}

}  // namespace

absl::StatusOr<LinearWeight> PackLinear(Device& device, std::span<const HostMatrix> parts,
                                        DType dtype) {
  if (absl::Status status = CheckParts(parts); !status.ok()) return status;
  const Backend& backend = device.functions();
  if (backend.pack_linear == nullptr) return MissingOp("PackLinear", backend.name);
  Storage storage;
  const std::vector<HostMatrix> packed = InFormOf(dtype, parts, storage);
  absl::StatusOr<LinearWeight> weight = backend.pack_linear(device, packed, dtype);
  if (!weight.ok() || dtype != DType::kInt8) return weight;
  absl::StatusOr<Buffer> scales = PackScales(device, packed);
  if (!scales.ok()) return scales.status();
  weight->scales = *std::move(scales);
  return weight;
}

absl::Status Linear(Device& device, const LinearArgs& args) {
  if (absl::Status status = CheckLinear(args); !status.ok()) return status;
  const Backend& backend = device.functions();
  if (backend.linear == nullptr) return MissingOp("Linear", backend.name);
  return backend.linear(device, args);
}

absl::Status GatedOutput(Device& device, const GatedOutputArgs& args) {
  if (absl::Status status = CheckGatedOutput(args); !status.ok()) return status;
  const Backend& backend = device.functions();
  if (backend.gated_output == nullptr) return MissingOp("GatedOutput", backend.name);
  return backend.gated_output(device, args);
}

}  // namespace tvq
