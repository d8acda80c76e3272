// The families whose past is a sum of features; they differ in what features are.
#include <memory>
#include <utility>

#include "models/runtime/families/family.h"
#include "models/runtime/families/transformer/blocks.h"
#include "models/runtime/layers/attention/linear/core.h"

namespace tvq {
namespace {

// Sums are float32 whatever the dtype of what other states keep.
absl::StatusOr<StackLayers> MakeLinear(const TransformerConfig& config,
                                       const LoadOptions& options) {
  StackLayers made;
  made.layers = MakeBlocks(config, *options.device, [&](int64_t) {
    return std::make_unique<LinearCore>(config, *options.device);
  });
  return made;
}

}  // namespace

Family LinearTransformerFamily() {
  return {"linear_transformer", {{}, {"block_len"}}, &BuildTransformer<MakeLinear>};
}

Family SoftCodebookFamily() {
  return {"soft_codebook", {{"n_code", "sigma"}, {"block_len"}}, &BuildTransformer<MakeLinear>};
}

Family PerformerFamily() {
  return {"performer", {{"n_feature"}, {"block_len"}}, &BuildTransformer<MakeLinear>};
}

}  // namespace tvq
