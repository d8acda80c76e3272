#include "kernels/ops/norm_rows.h"

#include "kernels/ops/check.h"

namespace tvq {

absl::Status CheckArgs(const Device&, const NormRowsArgs& args) {
  constexpr const char* kOp = "NormRows";
  const int64_t rows = args.x.dim(0);
  const int64_t width = args.x.dim(1);
  return FirstError({
      CheckShape(kOp, "x", args.x, {rows, width}),
      CheckOptional(kOp, "gain", args.gain, {width}),
      CheckOptional(kOp, "bias", args.bias, {width}),
      CheckShape(kOp, "out", args.out, {rows, width}),
  });
}

}  // namespace tvq
