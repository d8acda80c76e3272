// A decoding state with the bytes of the budget that it takes.
#ifndef TVQ_SERVER_ENGINE_REQUEST_HELD_STATE_H_
#define TVQ_SERVER_ENGINE_REQUEST_HELD_STATE_H_

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "models/runtime/state.h"
#include "server/engine/memory/state_budget.h"

namespace tvq {

// What of it is sealed (State::Seal) is paid for by itself, once for all states that hold it. The
// bytes go back when the memory has.
struct HeldState {
  StateBudget::Share share;  // what the state has for itself, and may still come to have
  std::unique_ptr<State> state;

  // Device memory that the state has for itself.
  int64_t OwnBytes() const { return state->bytes() - state->sealed_bytes(); }
  // Seals what can be, and pays `budget`, the share's, out of the share.
  void Seal(StateBudget& budget);
  // Makes it what `other`, a state of the same model, was after its first `tokens` tokens. Gives
  // back the bytes that the share has for memory that the two states now have in common.
  absl::Status CopyFirst(const State& other, int64_t tokens);
};

}  // namespace tvq

#endif  // TVQ_SERVER_ENGINE_REQUEST_HELD_STATE_H_
