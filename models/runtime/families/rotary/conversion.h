// How a model was converted so that all of its state, or most of it, is constant: the object
// `conversion` of its config.json (docs/model-format.md).
#ifndef TVQ_MODELS_RUNTIME_FAMILIES_ROTARY_CONVERSION_H_
#define TVQ_MODELS_RUNTIME_FAMILIES_ROTARY_CONVERSION_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "models/runtime/config/config.h"
#include "models/runtime/families/rotary/rotary_config.h"
#include "models/runtime/layers/attention/ring/ring_config.h"

namespace tvq {

struct Conversion {
  int64_t codes = 0;                           // S of every key/value head
  int64_t trained_context = 0;                 // positions
  std::vector<std::vector<RingGroup>> groups;  // by layer; shortest rings first, then pages

  // The lengths of all rings, ascending.
  std::vector<int64_t> Rings() const;
};

// INVALID_ARGUMENT naming the field and what would be right.
absl::StatusOr<Conversion> ReadConversion(const Config& config, const RotaryConfig& model);

}  // namespace tvq

#endif  // TVQ_MODELS_RUNTIME_FAMILIES_ROTARY_CONVERSION_H_
