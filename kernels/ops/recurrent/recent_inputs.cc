#include "kernels/ops/recurrent/recent_inputs.h"

#include "absl/strings/str_cat.h"
#include "kernels/ops/check.h"

namespace tvq {

absl::Status CheckArgs(const Device& device, const TokenShiftArgs& args) {
  constexpr const char* kOp = "TokenShift";
  const int64_t rows = args.x.dim(0), width = args.x.dim(1), mixes = args.mix.dim(0);
  return FirstError({
      CheckShape(kOp, "x", args.x, {rows, width}),
      CheckShape(kOp, "mix", args.mix, {mixes, width}),
      CheckShape(kOp, "out", args.out, {mixes, rows, width}),
      CheckRecurrent(kOp, device, args.sessions, rows, /*matrix=*/false),
  });
}

absl::Status CheckArgs(const Device& device, const CausalConvolutionArgs& args) {
  constexpr const char* kOp = "CausalConvolution";
  const int64_t rows = args.x.dim(0), columns = args.x.dim(1);
  const int64_t width = args.weight.dim(0), channels = args.weight.dim(1);
  if (width < 2) {
    return ArgumentError(kOp, absl::StrCat("weight has ", width, " rows, expected 2 or more"));
  }
  if (args.first < 0 || args.first > columns - channels) {
    return ArgumentError(
        kOp, absl::StrCat("first is ", args.first, ", expected 0 to ", columns - channels,
                          ": x has ", columns, " columns, weight ", channels));
  }
  return FirstError({
      CheckShape(kOp, "x", args.x, {rows, columns}),
      CheckShape(kOp, "weight", args.weight, {width, channels}),
      CheckOptional(kOp, "bias", args.bias, {channels}),
      CheckShape(kOp, "out", args.out, {rows, channels}),
      CheckRecurrent(kOp, device, args.sessions, rows, /*matrix=*/false),
  });
}

}  // namespace tvq
