#include "kernels/ops/recurrent/rwkv_time_mix.h"

#include "kernels/ops/check.h"

namespace tvq {

absl::Status CheckArgs(const Device& device, const RwkvTimeMixArgs& args) {
  constexpr const char* kOp = "RwkvTimeMix";
  const int64_t rows = args.r.dim(0), heads = args.r.dim(1), width = args.r.dim(2);
  const auto check = [&](const char* name, const auto& tensor) {
    return CheckShape(kOp, name, tensor, {rows, heads, width});
  };
  const auto check_heads = [&](const char* name, const auto& matrix) {
    return CheckShape(kOp, name, matrix, {heads, width});
  };
  if (args.v_first.empty() != args.v_mix.empty()) {
    return ArgumentError(kOp, "has one of v_first and v_mix, expected both or neither");
  }
  if (!args.v_first.empty()) {
    const absl::Status status =
        FirstError({check("v_first", args.v_first), check("v_mix", args.v_mix)});
    if (!status.ok()) return status;
  }
  return FirstError({
      check("r", args.r),
      check("k", args.k),
      check("v", args.v),
      check("decay", args.decay),
      check("rate", args.rate),
      check("gate", args.gate),
      check("out", args.out),
      check_heads("k_k", args.k_k),
      check_heads("k_a", args.k_a),
      check_heads("r_k", args.r_k),
      check_heads("gain", args.gain),
      check_heads("bias", args.bias),
      CheckRecurrent(kOp, device, args.sessions, rows, /*matrix=*/true),
  });
}

}  // namespace tvq
