#include "kernels/ops/vq_attention.h"

#include "absl/strings/str_cat.h"
#include "kernels/backend.h"
#include "kernels/ops/check.h"

namespace tvq {
namespace {

absl::Status CheckVqShape(const char* op, const VqShape& shape) {
  if (shape.value_dtype == DType::kInt8) {
    return ArgumentError(op, "values are int8, expected float32 or bfloat16");
  }
  if (shape.kv_heads > 0 && shape.codes > 0 && shape.window > 0 && shape.value > 0) {
    return absl::OkStatus();
  }
  return ArgumentError(op, absl::StrCat("shape has ", shape.kv_heads, " key/value heads, ",
                                        shape.codes, " codes, ", "a window of ", shape.window,
                                        " and ", shape.value, " values, expected each above 0"));
}

absl::Status CheckState(const char* op, const char* argument, const VqState& state) {
  if (state.sum != nullptr && state.carry != nullptr && state.count != nullptr &&
      state.window_code != nullptr && state.window_value != nullptr) {
    return absl::OkStatus();
  }
  return ArgumentError(op, absl::StrCat(argument, " lacks memory"));
}

absl::Status CheckCodes(const char* op, Matrix<const int32_t> codes, int64_t limit) {
  for (int64_t i = 0; i < codes.size(); ++i) {
    if (codes.data[i] < 0 || codes.data[i] >= limit) {
      return ArgumentError(op, absl::StrCat("codes[", i / codes.dim(1), ",", i % codes.dim(1),
                                            "] is ", codes.data[i], ", expected 0 to ", limit - 1));
    }
  }
  return absl::OkStatus();
}

// What lies in device memory: states and positions.
absl::Status CheckSessions(const char* op, Vector<const VqState> states,
                           Vector<const int64_t> positions) {
  for (int64_t n = 0; n < states.size(); ++n) {
    if (states.data[n].none()) continue;
    absl::Status status = FirstError({CheckState(op, "a state", states.data[n]),
                                      CheckPosition(op, "a position", positions.data[n])});
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status CheckDecode(const Device& device, const VqDecodeAttentionArgs& args) {
  constexpr const char* kOp = "VqDecodeAttention";
  const VqShape& shape = args.shape;
  if (absl::Status status = CheckVqShape(kOp, shape); !status.ok()) return status;
  const int64_t rows = args.states.dim(0);
  const int64_t heads = args.code_scores.dim(1);
  absl::Status status = FirstError({
      CheckHeads(kOp, "code_scores", heads, shape.kv_heads),
      CheckShape(kOp, "states", args.states, {rows}),
      CheckShape(kOp, "positions", args.positions, {rows}),
      CheckShape(kOp, "code_scores", args.code_scores, {rows, heads, shape.codes}),
      CheckShape(kOp, "position_scores", args.position_scores, {rows, heads, shape.window}),
      CheckShape(kOp, "codes", args.codes, {rows, shape.kv_heads}),
      CheckShape(kOp, "v", args.v, {rows, shape.kv_heads, shape.value}),
      CheckShape(kOp, "out", args.out, {rows, heads, shape.value}),
  });
  if (!status.ok() || !device.host_memory()) return status;
  status = CheckSessions(kOp, args.states, args.positions);
  return status.ok() ? CheckCodes(kOp, args.codes, shape.codes) : status;
}

absl::Status CheckPrefill(const Device& device, const VqPrefillAttentionArgs& args) {
  constexpr const char* kOp = "VqPrefillAttention";
  const VqShape& shape = args.shape;
  if (absl::Status status = CheckVqShape(kOp, shape); !status.ok()) return status;
  const int64_t tokens = args.code_scores.dim(0);
  const int64_t heads = args.code_scores.dim(1);
  absl::Status status = FirstError({
      CheckState(kOp, "state", args.state),
      CheckPosition(kOp, "position", args.position),
      CheckHeads(kOp, "code_scores", heads, shape.kv_heads),
      CheckShape(kOp, "code_scores", args.code_scores, {tokens, heads, shape.codes}),
      CheckShape(kOp, "position_scores", args.position_scores, {tokens, heads, shape.window}),
      CheckShape(kOp, "codes", args.codes, {tokens, shape.kv_heads}),
      CheckShape(kOp, "v", args.v, {tokens, shape.kv_heads, shape.value}),
      CheckShape(kOp, "out", args.out, {tokens, heads, shape.value}),
  });
  if (!status.ok() || !device.host_memory()) return status;
  return CheckCodes(kOp, args.codes, shape.codes);
}

absl::Status CheckAppend(const Device& device, const VqAppendArgs& args) {
  constexpr const char* kOp = "VqAppend";
  const VqShape& shape = args.shape;
  if (absl::Status status = CheckVqShape(kOp, shape); !status.ok()) return status;
  const int64_t tokens = args.codes.dim(0);
  absl::Status status = FirstError({
      CheckState(kOp, "state", args.state),
      CheckPosition(kOp, "position", args.position),
      CheckShape(kOp, "codes", args.codes, {tokens, shape.kv_heads}),
      CheckShape(kOp, "v", args.v, {tokens, shape.kv_heads, shape.value}),
  });
  if (!status.ok() || !device.host_memory()) return status;
  return CheckCodes(kOp, args.codes, shape.codes);
}

}  // namespace

absl::Status VqDecodeAttention(Device& device, const VqDecodeAttentionArgs& args) {
  const Backend& backend = device.functions();
  if (backend.vq_decode_attention == nullptr) return MissingOp("VqDecodeAttention", backend.name);
  const absl::Status status = CheckDecode(device, args);
  return status.ok() ? backend.vq_decode_attention(device, args) : status;
}

absl::Status VqPrefillAttention(Device& device, const VqPrefillAttentionArgs& args) {
  const Backend& backend = device.functions();
  if (backend.vq_prefill_attention == nullptr) return MissingOp("VqPrefillAttention", backend.name);
  const absl::Status status = CheckPrefill(device, args);
  return status.ok() ? backend.vq_prefill_attention(device, args) : status;
}

absl::Status VqAppend(Device& device, const VqAppendArgs& args) {
  const Backend& backend = device.functions();
  if (backend.vq_append == nullptr) return MissingOp("VqAppend", backend.name);
  const absl::Status status = CheckAppend(device, args);
  return status.ok() ? backend.vq_append(device, args) : status;
}

}  // namespace tvq
