#include "kernels/ops/attention/vq_check.h"

#include "absl/strings/str_cat.h"
#include "kernels/ops/check.h"

namespace tvq {

absl::Status CheckVqShape(const char* op, const VqShape& shape) {
  if (shape.value_dtype != DType::kFloat32 && shape.value_dtype != DType::kBFloat16) {
    return ArgumentError(
        op, absl::StrCat("values are ", Name(shape.value_dtype), ", expected float32 or bfloat16"));
  }
  if (shape.kv_heads > 0 && shape.codes > 0 && shape.window > 0 && shape.value > 0) {
    return absl::OkStatus();
  }
  return ArgumentError(op, absl::StrCat("shape has ", shape.kv_heads, " key/value heads, ",
                                        shape.codes, " codes, ", "a window of ", shape.window,
                                        " and ", shape.value, " values, expected each above 0"));
}

absl::Status CheckVqState(const char* op, const char* argument, const VqShape& shape,
                          const VqState& state) {
  const bool exact = state.sum != nullptr && state.carry != nullptr && state.count != nullptr &&
                     state.window_code != nullptr && state.window_value != nullptr;
  const bool copy = state.mean != nullptr && state.mean_scale != nullptr &&
                    state.recent != nullptr && state.recent_scale != nullptr;
  const bool keys = state.window_key != nullptr && state.sink_key != nullptr;
  if (exact && (copy || shape.read == VqRead::kExact) && (keys || shape.key == 0)) {
    return absl::OkStatus();
  }
  return ArgumentError(op, absl::StrCat(argument, " lacks memory"));
}

absl::Status CheckVqCodes(const char* op, Matrix<const int32_t> codes, int64_t limit) {
  for (int64_t i = 0; i < codes.size(); ++i) {
    if (codes.data[i] < 0 || codes.data[i] >= limit) {
      return ArgumentError(op, absl::StrCat("codes[", i / codes.dim(1), ",", i % codes.dim(1),
                                            "] is ", codes.data[i], ", expected 0 to ", limit - 1));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckVqSessions(const char* op, const VqShape& shape, Vector<const VqState> states,
                             Vector<const int64_t> positions) {
  for (int64_t n = 0; n < states.size(); ++n) {
    if (states.data[n].none()) continue;
    absl::Status status = FirstError({CheckVqState(op, "a state", shape, states.data[n]),
                                      CheckPosition(op, "a position", positions.data[n])});
    if (!status.ok()) return status;
    const int64_t position = positions.data[n];
    if (n == 0 || states.data[n].sum != states.data[n - 1].sum) continue;
    if (const int64_t next = positions.data[n - 1] + 1; position != next) {
      return ArgumentError(op, absl::StrCat("positions[", n, "] is ", position, ", expected ", next,
                                            ": the row before it is of the same state"));
    }
  }
  return absl::OkStatus();
}

}  // namespace tvq
