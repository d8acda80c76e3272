// A model whose layers are of several kinds: quantized keys, every key in pages, sums of features.
#ifndef TVQ_TESTS_MODELS_RUNTIME_STACK_MIXED_MODEL_H_
#define TVQ_TESTS_MODELS_RUNTIME_STACK_MIXED_MODEL_H_

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "models/runtime/families/family.h"
#include "models/runtime/families/transformer/blocks.h"
#include "models/runtime/layers/attention/linear/core.h"
#include "models/runtime/layers/attention/softmax/core.h"
#include "models/runtime/layers/attention/vq/core.h"
#include "models/runtime/stack/stack.h"
#include "models/runtime/tokenizer/types.h"
#include "tests/models/runtime/random_weights.h"
#include "tests/models/runtime/stack/fed_model.h"

namespace tvq {

struct MixedOptions {
  std::string block = "standard", position_bias = "relative";
  StateReads reads;
  bool reads_text = false;  // of bytes, by a tokenizer
  // What the stack gets in the place of a layer; empty: the layer.
  std::function<std::unique_ptr<Layer>(std::unique_ptr<Layer>)> wrap;
  std::function<void(int64_t done, int64_t total)> progress;
};

inline std::string MixedJson(const MixedOptions& mixed) {
  return absl::StrCat(R"({"model_type": "transformer_vq", "vocab_size": )",
                      mixed.reads_text ? 259 : 29,
                      R"(, "d_model": 24, "d_k": 8, "d_v": 16,
          "n_layer": 6, "n_head": 4, "n_kv_head": 2, "n_code": 5, "block_len": 8, "mem_len": 7,
          "prefill_chunk": 64, "tokenizer": {"type": "bytes"}, "position_bias": ")",
                      mixed.position_bias, R"(", "block": ")", mixed.block,
                      mixed.block == "standard" ? R"(", "d_ff": 32})" : R"("})");
}

inline StackLayers MixedLayers(const TransformerConfig& config, const StateReads& reads,
                               Device& device) {
  TransformerConfig linear = config;
  linear.n_code = 0;
  VqTables tables(config);
  if (reads.skip_mass > 0) tables.row_reads = std::make_shared<RowReads>(device);
  StackLayers made;
  made.layers = MakeBlocks(config, device, [&](int64_t block) -> std::unique_ptr<AttentionCore> {
    if (block % 3 == 0) {
      return std::make_unique<VqCore>(config, device, DType::kFloat32, reads,
                                      /*draft_rows=*/4, tables, block);
    }
    if (block % 3 == 1) {
      return std::make_unique<SoftmaxCore>(config, device, DType::kFloat32, 0, tables.relative);
    }
    return std::make_unique<LinearCore>(linear, device);
  });
  made.key_tap = tables.tap;
  made.row_reads = tables.row_reads;
  return made;
}

inline std::unique_ptr<Model> NewMixedModel(const std::shared_ptr<Device>& device,
                                            const MixedOptions& mixed) {
  TransformerConfig config = ParseTransformerConfig(Config::Parse(MixedJson(mixed), "test").value(),
                                                    TransformerVqFamily().fields)
                                 .value();
  config.common.max_position = 1000;
  LoadOptions options;
  options.device = device;
  options.progress = mixed.progress;
  StackLayers made = MixedLayers(config, mixed.reads, *device);
  for (auto& layer : made.layers) {
    if (mixed.wrap) layer = mixed.wrap(std::move(layer));
  }
  const std::unique_ptr<WeightSource> weights = RandomWeights(3);
  std::unique_ptr<Tokenizer> tokenizer;
  if (mixed.reads_text) tokenizer = MakeBytesTokenizer(config.common).value();
  return Stack::Create(config, std::move(made), *weights, std::move(tokenizer), options).value();
}

class MixedModel : public FedModel {
 public:
  static constexpr int64_t kBlocks = 6, kVqBlocks = 2, kHeads = 4;

  explicit MixedModel(const std::shared_ptr<Device>& device, const MixedOptions& mixed = {})
      : FedModel(NewMixedModel(device, mixed)) {}
};

}  // namespace tvq

#endif  // TVQ_TESTS_MODELS_RUNTIME_STACK_MIXED_MODEL_H_
