#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "models/runtime/families/family.h"
#include "models/runtime/families/transformer/blocks.h"
#include "models/runtime/layers/attention/vq/core.h"

namespace tvq {
namespace {

absl::StatusOr<StackLayers> MakeVq(const TransformerConfig& config, const LoadOptions& options) {
  const StateReads& reads = options.reads;
  if (!(reads.skip_mass >= 0 && reads.skip_mass < 1)) {
    return absl::InvalidArgumentError(
        absl::StrCat("skip_mass is ", reads.skip_mass, ", must be 0 to less than 1"));
  }
  Device& device = *options.device;
  VqTables tables(config);
  if (reads.skip_mass > 0) {
    tables.row_reads = std::make_shared<RowReads>(device);
  }
  StackLayers made;
  made.layers = MakeBlocks(config, device, [&](int64_t block) {
    return std::make_unique<VqCore>(config, device, StateDType(options), reads, options.draft_rows,
                                    tables, block);
  });
  made.state_dtype = StateDType(options);
  made.key_tap = tables.tap;
  made.row_reads = tables.row_reads;
  made.reads = reads;
  return made;
}

}  // namespace

Family TransformerVqFamily() {
  return {"transformer_vq",
          {{"n_code", "block_len", "mem_len"}, {"position_bias"}},
          &BuildTransformer<MakeVq>};
}

}  // namespace tvq
