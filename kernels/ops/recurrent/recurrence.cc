#include "kernels/ops/recurrent/recurrence.h"

#include "absl/strings/str_cat.h"
#include "kernels/ops/check.h"

namespace tvq {

absl::Status CheckRecurrent(std::string_view op, const Device& device,
                            const RecurrentRows& sessions, int64_t rows, bool matrix) {
  const auto check = [&](const RecurrentState& state) {
    const bool right = state.inputs != nullptr && (!matrix || state.matrix != nullptr);
    return right ? absl::OkStatus() : ArgumentError(op, "a state lacks memory");
  };
  if (sessions.prefill()) return check(sessions.state);
  absl::Status status = CheckShape(op, "states", sessions.states, {rows});
  if (!status.ok() || !device.host_memory()) return status;
  for (int64_t n = 0; n < rows && status.ok(); ++n) {
    if (!sessions.states.data[n].none()) status = check(sessions.states.data[n]);
  }
  return status;
}

}  // namespace tvq
