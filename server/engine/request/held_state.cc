#include "server/engine/request/held_state.h"

namespace tvq {

void HeldState::Seal(StateBudget& budget) {
  state->Seal([&](int64_t bytes) { return budget.PaySealed(share.Split(bytes)); });
}

absl::Status HeldState::CopyFirst(const State& other, int64_t tokens) {
  const absl::Status status =
      tokens == other.position() ? state->CopyFrom(other) : state->CopyFirst(other, tokens);
  if (status.ok()) share.Shrink(share.bytes() - state->sealed_bytes());
  return status;
}

}  // namespace tvq
