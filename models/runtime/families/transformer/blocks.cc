#include "models/runtime/families/transformer/blocks.h"

#include "absl/strings/str_cat.h"
#include "models/runtime/layers/attention/attention_layer.h"
#include "models/runtime/layers/mlp/mlp_layer.h"

namespace tvq {

std::string LayerPrefix(int64_t block) { return absl::StrCat("layers.", block, "."); }

std::vector<std::unique_ptr<Layer>> MakeBlocks(
    const TransformerConfig& config, Device& device,
    const std::function<std::unique_ptr<AttentionCore>(int64_t block)>& core) {
  std::vector<std::unique_ptr<Layer>> layers;
  for (int64_t block = 0; block < config.n_layer; ++block) {
    const std::string prefix = LayerPrefix(block);
    layers.push_back(std::make_unique<AttentionLayer>(prefix, config, device, core(block)));
    if (config.block == Block::kStandard) {
      layers.push_back(std::make_unique<MlpLayer>(prefix, config.d_model, config.d_ff, device));
    }
  }
  return layers;
}

}  // namespace tvq
