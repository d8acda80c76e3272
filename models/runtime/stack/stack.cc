#include "models/runtime/stack/stack.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace tvq {
namespace {

// The most drafts that all layers can take back. Layers that keep nothing of a session do not
// count.
int64_t DraftRowsOf(const std::vector<std::unique_ptr<Layer>>& layers) {
  int64_t rows = std::numeric_limits<int64_t>::max();
  for (const auto& layer : layers) {
    if (layer->parts().parts().empty()) continue;
    LayerUndo* const undo = layer->undo();
    rows = std::min(rows, undo == nullptr ? 0 : undo->rows());
  }
  return rows == std::numeric_limits<int64_t>::max() ? 0 : rows;
}

}  // namespace

StateLayout LayoutOf(const StackConfig& config, const StackLayers& made) {
  std::vector<StateLayout::Kept> kept;
  kept.reserve(made.layers.size());
  for (const auto& layer : made.layers) kept.push_back({layer->prefix(), &layer->parts()});
  return {kept, config.common.max_position};
}

Stack::Stack(const StackConfig& config, StackLayers layers, std::unique_ptr<Tokenizer> tokenizer,
             const LoadOptions& options)
    : DeviceModel(config, std::move(tokenizer), options),
      layers_(std::move(layers)),
      layout_(LayoutOf(config, layers_)),
      draft_rows_(DraftRowsOf(layers_.layers)) {
  info_.state_dtype = layers_.state_dtype;
  info_.reads = layers_.reads;
  for (size_t l = 0; l < layers_.layers.size(); ++l) {
    Layer& layer = *layers_.layers[l];
    layer.Place(layout_.layers()[l]);
    const LayerRounding rounding = layer.rounding();
    info_.products += rounding.products;
    info_.kept += rounding.kept;
    info_.factors += rounding.factors;
    info_.cache_bytes_per_token +=
        layer.cached_numbers() * static_cast<int64_t>(SizeOf(layers_.state_dtype));
  }
}

absl::StatusOr<std::unique_ptr<Model>> Stack::Create(const StackConfig& config, StackLayers layers,
                                                     WeightSource& source,
                                                     std::unique_ptr<Tokenizer> tokenizer,
                                                     const LoadOptions& options) {
  std::unique_ptr<Stack> stack(new Stack(config, std::move(layers), std::move(tokenizer), options));
  absl::Status s = stack->Load(source, options, stack->layers_.layers);
  if (s.ok()) s = stack->TakeMemory();
  for (const auto& layer : stack->layers_.layers) {
    if (!s.ok()) return s;
    s = layer->CheckDevice();
  }
  if (!s.ok()) return s;
  return stack;
}

absl::Status Stack::TakeMemory() {
  std::vector<size_t> view_bytes;
  view_bytes.reserve(layers_.layers.size());
  for (const auto& layer : layers_.layers) view_bytes.push_back(layer->view_bytes());
  return Reserve(layers_.layers, view_bytes, [&](WorkingMemory& memory) {
    memory.Keep(&x_, x(config_.rows()).size());
    memory.Keep(&score_logits_, score_logits(kScoreRows).size());
    if (layers_.row_reads != nullptr) layers_.row_reads->Reserve(config_.rows(), memory);
  });
}

absl::Status Stack::Embed() {
  return vocabulary_.Embed(inputs_.tokens(), inputs_.positions(), x(inputs_.rows()));
}

absl::Status Stack::ComputeLogits(int64_t first, Matrix<float> out) {
  const Matrix<float> rows{x(config_.rows()).row(first), {out.dim(0), config_.d_model}};
  return vocabulary_.Logits(rows, out);
}

}  // namespace tvq
