#include "models/runtime/layers/recurrent/recurrent_layer.h"

#include <cstring>
#include <utility>

namespace tvq {
namespace {

constexpr auto kNumber = static_cast<int64_t>(sizeof(float));

}  // namespace

RecurrentLayer::RecurrentLayer(std::string prefix, const RecurrentShape& shape, int64_t draft_rows,
                               Device& device)
    : Layer(std::move(prefix)),
      device_(device),
      parts_(shape),
      draft_rows_(device.host_memory() ? draft_rows : 0) {}

void RecurrentLayer::Reserve(int64_t rows, WorkingMemory& memory) {
  memory.Keep(&kept_inputs_, draft_rows_ * parts_.shape().input_numbers());
  memory.Keep(&kept_matrices_, draft_rows_ * parts_.shape().matrix_numbers());
  ReserveRows(rows, memory);
}

void RecurrentLayer::View(const PartMemory& memory, std::byte* view) const {
  const RecurrentState state = parts_.At(memory);
  std::memcpy(view, &state, sizeof(state));
}

RecurrentState RecurrentLayer::Kept(int64_t draft) const {
  RecurrentState kept;
  kept.kept_inputs = kept_inputs_ + draft * parts_.shape().input_numbers();
  if (parts_.shape().heads > 0) {
    kept.kept_matrix = kept_matrices_ + draft * parts_.shape().matrix_numbers();
  }
  return kept;
}

void RecurrentLayer::ViewDraft(int64_t draft, std::byte* view) const {
  RecurrentState state;
  std::memcpy(&state, view, sizeof(state));
  const RecurrentState kept = Kept(draft);
  state.kept_inputs = kept.kept_inputs;
  state.kept_matrix = kept.kept_matrix;
  std::memcpy(view, &state, sizeof(state));
}

absl::Status RecurrentLayer::TakeBack(const PartMemory& memory, int64_t, int64_t draft) {
  const RecurrentState state = parts_.At(memory), kept = Kept(draft);
  absl::Status s =
      device_.CopyWithin(state.inputs, kept.kept_inputs,
                         static_cast<size_t>(parts_.shape().input_numbers() * kNumber));
  if (!s.ok() || state.matrix == nullptr) return s;
  return device_.CopyWithin(state.matrix, kept.kept_matrix,
                            static_cast<size_t>(parts_.shape().matrix_numbers() * kNumber));
}

absl::Status RecurrentLayer::Multiply(const Product& product, const LayerRows& rows) {
  LinearArgs args;
  args.x = product.x;
  args.weight = &product.weight;
  args.bias = product.bias;
  args.activation = product.activation;
  args.accumulate = product.accumulate;
  args.y = product.y;
  args.chunk_rows = rows.chunk_rows;
  return Linear(device_, args);
}

}  // namespace tvq
