#include "models/runtime/layers/recurrent/recurrent_parts.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "models/runtime/stack/section_checks.h"

namespace tvq {
namespace {

enum Part : size_t { kInputs, kMatrix };

std::vector<StatePart> PartsOf(const RecurrentShape& shape) {
  std::vector<StatePart> parts{{.name = "inputs", .shape = {shape.inputs, shape.channels}}};
  if (shape.heads > 0) {
    parts.push_back({.name = "matrix", .shape = {shape.heads, shape.key, shape.value}});
  }
  return parts;
}

}  // namespace

RecurrentParts::RecurrentParts(const RecurrentShape& shape)
    : LayerParts(PartsOf(shape)), shape_(shape) {}

RecurrentState RecurrentParts::At(const PartMemory& memory) const {
  RecurrentState state;
  state.inputs = memory.At<float>(kInputs);
  if (shape_.heads > 0) state.matrix = memory.At<float>(kMatrix);
  return state;
}

absl::Status RecurrentParts::Check(size_t part, const Read& read) const {
  const int64_t ahead = std::max<int64_t>(0, shape_.inputs - read.position) * shape_.channels;
  const int64_t at_start = read.position == 0 ? shape_.matrix_numbers() : 0;
  const auto* const values = read.memory.At<float>(part);
  const float* const end = values + (part == kInputs ? ahead : at_start);
  const float* const wrong = std::find_if(values, end, [](float v) { return v != 0; });
  if (wrong == end) return absl::OkStatus();
  return InvalidElement(read.sections[part], wrong - values,
                        absl::StrCat("is ", *wrong, ", must be 0 at position ", read.position,
                                     ": no token was fed there"));
}

}  // namespace tvq
