// The families that keep the past as a sum of products of features. They differ in how features are
// computed.
#include <memory>
#include <utility>

#include "models/runtime/families/family.h"
#include "models/runtime/families/transformer/blocks.h"
#include "models/runtime/layers/attention/linear/core.h"

namespace tvq {
namespace {

// Sums are always float32, whatever the options' state_dtype.
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
