// Makes the layers of a transformer, in their order (docs/mathematics.md).
#ifndef TVQ_MODELS_RUNTIME_FAMILIES_TRANSFORMER_BLOCKS_H_
#define TVQ_MODELS_RUNTIME_FAMILIES_TRANSFORMER_BLOCKS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kernels/device/device.h"
#include "models/runtime/families/transformer/transformer_config.h"
#include "models/runtime/layers/attention/attention_core.h"
#include "models/runtime/stack/layer.h"

namespace tvq {

// The beginning of the names of a block's tensors, and of its sections of a state.
std::string LayerPrefix(int64_t block);

// config.n_layer blocks: a gated one is a layer of attention, a standard one has an MLP behind it.
// `core` makes the attention of a block.
std::vector<std::unique_ptr<Layer>> MakeBlocks(
    const TransformerConfig& config, Device& device,
    const std::function<std::unique_ptr<AttentionCore>(int64_t block)>& core);

}  // namespace tvq

#endif  // TVQ_MODELS_RUNTIME_FAMILIES_TRANSFORMER_BLOCKS_H_
