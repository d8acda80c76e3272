#include "kernels/ops/linear.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/numbers/int8.h"
#include "kernels/numbers/quantize.h"
#include "kernels/ops/check.h"

namespace tvq {
namespace {

float LargestOfRow(const HostMatrix& matrix, int64_t row) {
  constexpr int64_t kPiece = 1024;
  float piece[kPiece];
  float largest = 0;
  for (int64_t i = 0; i < matrix.in; i += kPiece) {
    const int64_t count = std::min(kPiece, matrix.in - i);
    ReadValues(matrix, row, i, count, piece);
    largest = LargerMagnitude(largest, LargestMagnitude({piece, static_cast<size_t>(count)}));
  }
  return largest;
}

// The scales of the int8 rows of all matrices, one matrix after the other. Where a matrix has none
// they are computed from its values, which must be finite, and the matrix gets them.
absl::StatusOr<std::vector<float>> FindScales(Device& device, std::vector<HostMatrix>& parts) {
  int64_t rows = 0;
  for (const HostMatrix& part : parts) rows += part.out;
  std::vector<float> scales(static_cast<size_t>(rows));
  float* to = scales.data();
  for (HostMatrix& part : parts) {
    if (part.scales != nullptr) {
      std::copy_n(part.scales, part.out, to);
    } else {
      device.RunOnHost(part.out,
                       [&](int64_t row) { to[row] = Int8Scale(LargestOfRow(part, row)); });
      const float* const wrong =
          std::find_if_not(to, to + part.out, [](float scale) { return std::isfinite(scale); });
      if (wrong != to + part.out) {
        return ArgumentError("PackLinear",
                             absl::StrCat("row ", wrong - to, " of parts[", &part - parts.data(),
                                          "] holds an infinite value or NaN, "
                                          "expected finite ones to make int8 of"));
      }
      part.scales = to;
    }
    to += part.out;
  }
  return scales;
}

absl::Status CheckWeight(const char* op, const LinearWeight* weight, int64_t out, int64_t in) {
  if (weight == nullptr) return ArgumentError(op, "weight is missing");
  if (weight->out != out || weight->in != in) {
    return ArgumentError(op, absl::StrCat("weight is [", weight->out, ",", weight->in,
                                          "], expected [", out, ",", in, "]"));
  }
  return absl::OkStatus();
}

absl::Status CheckParts(const char* op, std::span<const HostMatrix> parts) {
  if (parts.empty()) return ArgumentError(op, "no matrix given");
  for (size_t i = 0; i < parts.size(); ++i) {
    const HostMatrix& part = parts[i];
    if (part.out < 0 || part.in <= 0 || part.in != parts[0].in) {
      return ArgumentError(op, absl::StrCat("parts[", i, "] is [", part.out, ",", part.in,
                                            "], expected [n,", parts[0].in, "], both above 0"));
    }
    if (part.data == nullptr && part.out > 0) {
      return ArgumentError(op, absl::StrCat("parts[", i, "] has no data"));
    }
    if (part.dtype == DType::kInt8 && part.scales == nullptr && part.out > 0) {
      return ArgumentError(op, absl::StrCat("parts[", i, "] is int8 and has no scales"));
    }
    if (part.dtype == DType::kInt4) {
      return ArgumentError(op, absl::StrCat("parts[", i,
                                            "] is int4, expected float32, bfloat16 "
                                            "or int8"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckArgs(const Device&, const PackRowsArgs& args) {
  constexpr const char* kOp = "PackLinear";
  if (args.packed == nullptr) return ArgumentError(kOp, "packed is missing");
  if (absl::Status s = CheckParts(kOp, args.parts); !s.ok()) return s;
  if (args.dtype != DType::kInt8) return absl::OkStatus();
  for (size_t i = 0; i < args.parts.size(); ++i) {
    if (args.parts[i].scales != nullptr || args.parts[i].out == 0) continue;
    return ArgumentError(kOp,
                         absl::StrCat("parts[", i, "] has no scales, expected those of int8 rows"));
  }
  return absl::OkStatus();
}

absl::Status CheckArgs(const Device&, const LinearArgs& args) {
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

absl::Status CheckArgs(const Device&, const GatedOutputArgs& args) {
  constexpr const char* kOp = "GatedOutput";
  const int64_t rows = args.o.dim(0);
  const int64_t in = args.o.dim(1);
  const int64_t out = args.y.dim(1);
  return FirstError({
      CheckWeight(kOp, args.weight, out, in),
      CheckChunk(kOp, rows, args.chunk_rows),
      CheckShape(kOp, "o", args.o, {rows, in}),
      CheckShape(kOp, "g", args.g, {rows, in}),
      CheckOptional(kOp, "bias", args.bias, {out}),
      CheckShape(kOp, "y", args.y, {rows, out}),
  });
}

absl::StatusOr<LinearWeight> PackLinear(Device& device, std::span<const HostMatrix> parts,
                                        DType dtype) {
  LinearWeight weight;
  if (dtype != DType::kInt8) {
    if (absl::Status s = PackRows(device, {parts, dtype, &weight}); !s.ok()) return s;
    return weight;
  }
  if (absl::Status s = CheckParts("PackLinear", parts); !s.ok()) return s;
  std::vector<HostMatrix> scaled(parts.begin(), parts.end());
  const absl::StatusOr<std::vector<float>> scales = FindScales(device, scaled);
  if (!scales.ok()) return scales.status();
  if (absl::Status s = PackRows(device, {scaled, dtype, &weight}); !s.ok()) return s;
  const size_t bytes = scales->size() * sizeof(float);
  absl::StatusOr<Buffer> buffer = device.Allocate(bytes);
  if (!buffer.ok()) return buffer.status();
  weight.scales = *std::move(buffer);
  absl::Status copied = device.CopyFromHost(weight.scales.data(), scales->data(), bytes);
  if (!copied.ok()) return copied;
  return weight;
}

}  // namespace tvq
