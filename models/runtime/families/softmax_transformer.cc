#include <memory>
#include <utility>

#include "models/runtime/families/family.h"
#include "models/runtime/families/transformer/blocks.h"
#include "models/runtime/layers/attention/softmax/core.h"

namespace tvq {
namespace {

absl::StatusOr<StackLayers> MakeSoftmax(const TransformerConfig& config,
                                        const LoadOptions& options) {
  Device& device = *options.device;
  const RelativeTables tables(config);
  StackLayers made;
  made.layers = MakeBlocks(config, device, [&](int64_t) {
    return std::make_unique<SoftmaxCore>(config, device, StateDType(options), options.draft_rows,
                                         tables);
  });
  made.state_dtype = StateDType(options);
  return made;
}

}  // namespace

Family SoftmaxTransformerFamily() {
  return {"softmax_transformer",
          {{"mem_len"}, {"block_len", "position_bias"}},
          &BuildTransformer<MakeSoftmax>};
}

}  // namespace tvq
