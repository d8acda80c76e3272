// The frequencies of rotary positions, as config.json describes them.
#ifndef TVQ_MODELS_RUNTIME_FAMILIES_ROTARY_FREQUENCIES_H_
#define TVQ_MODELS_RUNTIME_FAMILIES_ROTARY_FREQUENCIES_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "models/runtime/config/config.h"

namespace tvq {

// The frequencies [R/2] for heads of `head` numbers, of which R are turned: all, or a part if there
// is a partial_rotary_factor. They are theta^(-2i/R) in float32, as in the transformers library.
// The type "linear" divides all by one factor; "llama3" divides only the low ones, with a smooth
// transition (transformers, modeling_rope_utils.py). Reads both forms of the fields:
// rope_parameters, and rope_theta with rope_scaling. INVALID_ARGUMENT for another type, naming it.
// `part` is the partial_rotary_factor of a config without one.
absl::StatusOr<std::vector<float>> ReadFrequencies(const Config& config, int64_t head, double part);

}  // namespace tvq

#endif  // TVQ_MODELS_RUNTIME_FAMILIES_ROTARY_FREQUENCIES_H_
