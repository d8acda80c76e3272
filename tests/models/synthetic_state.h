// States that nobody fed, for measurements and tests at context lengths that nobody wants to wait
// for.
#ifndef TVQ_TESTS_MODELS_SYNTHETIC_STATE_H_
#define TVQ_TESTS_MODELS_SYNTHETIC_STATE_H_

#include <cstdint>
#include <span>

#include "absl/status/status.h"
#include "models/runtime/model.h"
#include "models/runtime/state.h"

namespace tvq {

// Fills the state with values as if `position` tokens had been fed, equal for equal seeds.
// `sections`: Model::StateSections(position).
absl::Status Synthesize(State& state, std::span<const SectionInfo> sections, int64_t position,
                        uint64_t seed);

inline absl::Status Synthesize(const Model& model, State& state, int64_t position, uint64_t seed) {
  return Synthesize(state, model.StateSections(position), position, seed);
}

}  // namespace tvq

#endif  // TVQ_TESTS_MODELS_SYNTHETIC_STATE_H_
