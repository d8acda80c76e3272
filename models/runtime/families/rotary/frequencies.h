// The frequencies of rotary positions, as config.json describes them.
#ifndef TVQ_MODELS_RUNTIME_FAMILIES_ROTARY_FREQUENCIES_H_
#define TVQ_MODELS_RUNTIME_FAMILIES_ROTARY_FREQUENCIES_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "models/runtime/config/config.h"

namespace tvq {

// Of heads of `head` numbers, those of a part of them where partial_rotary_factor says so:
// theta^(-2i/R) in float32, as transformers has them, scaled as "linear" (all by one factor) or
// "llama3" (the low ones by it, those between smoothly: transformers, modeling_rope_utils.py). Both
// forms of the fields: rope_parameters, and rope_theta with rope_scaling. INVALID_ARGUMENT for
// another type, naming it.
absl::StatusOr<std::vector<float>> ReadFrequencies(const Config& config, int64_t head);

}  // namespace tvq

#endif  // TVQ_MODELS_RUNTIME_FAMILIES_ROTARY_FREQUENCIES_H_
