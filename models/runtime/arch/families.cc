#include "models/runtime/arch/families.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "models/runtime/arch/transformer/blocks.h"
#include "models/runtime/arch/transformer/encoder/model.h"
#include "models/runtime/arch/transformer/linear/core.h"
#include "models/runtime/arch/transformer/softmax/core.h"
#include "models/runtime/arch/transformer/stack.h"
#include "models/runtime/arch/transformer/vq/core.h"

namespace tvq {
namespace {

using transformer::StackLayers;
using transformer::TransformerConfig;

// The longest context that is allowed, in tokens; 0: no limit.
int64_t LongestContext(const CommonConfig& config, const LoadOptions& options, bool states_grow) {
  const int64_t own = config.max_position, asked = options.max_model_len;
  if (own > 0 && asked > 0) return std::min(own, asked);
  if (own > 0 || asked > 0) return std::max(own, asked);
  return states_grow ? kDefaultMaxModelLen : 0;
}

// Far above any memory, and a few of them still make a number.
constexpr int64_t kMostStateBytes = int64_t{1} << 56;

// `longest` tokens, which take `bytes`, are what config.json or the options allow.
absl::Status CheckLongest(const Config& config, int64_t longest,
                          const std::function<int64_t(int64_t tokens)>& bytes) {
  if (bytes(longest) <= kMostStateBytes) return absl::OkStatus();
  int64_t fits = 0, too_long = longest;
  while (too_long - fits > 1) {
    const int64_t between = fits + (too_long - fits) / 2;
    (bytes(between) <= kMostStateBytes ? fits : too_long) = between;
  }
  const absl::Status own = config.Int("max_position", 0, fits, 0).status();
  return own.ok() ? absl::InvalidArgumentError(
                        absl::StrCat("max_model_len is ", longest, ", must be at most ", fits))
                  : own;
}

absl::StatusOr<StackLayers> MakeVq(const TransformerConfig& config, const LoadOptions& options) {
  const StateReads& reads = options.reads;
  if (!(reads.skip_mass >= 0 && reads.skip_mass < 1)) {
    return absl::InvalidArgumentError(
        absl::StrCat("skip_mass is ", reads.skip_mass, ", must be 0 to less than 1"));
  }
  Device& device = *options.device;
  transformer::VqTables tables(config);
  if (reads.skip_mass > 0) {
    tables.row_reads = std::make_shared<transformer::RowReads>(config, device);
  }
  StackLayers made;
  made.layers = MakeBlocks(config, device, [&](int64_t block) {
    return std::make_unique<transformer::VqCore>(config, device, StateDType(options), reads,
                                                 options.draft_rows, tables, block);
  });
  made.state_dtype = StateDType(options);
  made.key_tap = tables.tap;
  made.row_reads = tables.row_reads;
  made.reads = reads;
  return made;
}

absl::StatusOr<StackLayers> MakeSoftmax(const TransformerConfig& config,
                                        const LoadOptions& options) {
  Device& device = *options.device;
  const transformer::RelativeTables tables(config);
  StackLayers made;
  made.layers = MakeBlocks(config, device, [&](int64_t) {
    return std::make_unique<transformer::SoftmaxCore>(config, device, StateDType(options), tables);
  });
  made.state_dtype = StateDType(options);
  return made;
}

// Sums are float32 whatever the dtype of what other states keep.
absl::StatusOr<StackLayers> MakeLinear(const TransformerConfig& config,
                                       const LoadOptions& options) {
  StackLayers made;
  made.layers = MakeBlocks(config, *options.device, [&](int64_t) {
    return std::make_unique<transformer::LinearCore>(config, *options.device);
  });
  return made;
}

absl::StatusOr<TransformerConfig> Parse(const Config& config, const LoadOptions& options) {
  auto parsed = transformer::ParseTransformerConfig(config);
  const DType state_dtype = StateDType(options);
  if (parsed.ok() && state_dtype != DType::kFloat32 && state_dtype != DType::kBFloat16) {
    return absl::InvalidArgumentError(
        absl::StrCat("state_dtype is ", Name(state_dtype), ", must be float32 or bfloat16"));
  }
  return parsed;
}

// A stack of the layers that `Make` makes.
template <absl::StatusOr<StackLayers> (*Make)(const TransformerConfig&, const LoadOptions&)>
absl::StatusOr<std::unique_ptr<Model>> BuildStack(const Config& config, WeightSource& weights,
                                                  std::unique_ptr<Tokenizer> tokenizer,
                                                  const LoadOptions& options) {
  auto parsed = Parse(config, options);
  if (!parsed.ok()) return parsed.status();
  absl::StatusOr<StackLayers> layers = Make(*parsed, options);
  if (!layers.ok()) return layers.status();
  const bool grow = LayoutOf(*parsed, *layers).page_bytes() > 0;
  parsed->common.max_position = LongestContext(parsed->common, options, grow);
  const transformer::StateLayout layout = LayoutOf(*parsed, *layers);
  absl::Status longest = CheckLongest(config, layout.max_position(),
                                      [&](int64_t tokens) { return layout.Bytes(tokens); });
  if (!longest.ok()) return longest;
  return transformer::Stack::Create(*parsed, *std::move(layers), weights, std::move(tokenizer),
                                    options);
}

absl::StatusOr<std::unique_ptr<Model>> BuildEncoder(const Config& config, WeightSource& weights,
                                                    std::unique_ptr<Tokenizer> tokenizer,
                                                    const LoadOptions& options) {
  auto parsed = Parse(config, options);
  if (!parsed.ok()) return parsed.status();
  int64_t& longest = parsed->common.max_position;
  longest = LongestContext(parsed->common, options, /*states_grow=*/true);
  absl::Status s = CheckLongest(config, longest, [&](int64_t tokens) {
    return transformer::EncoderModel::TextBytes(*parsed, tokens);
  });
  if (!s.ok()) return s;
  return transformer::EncoderModel::Create(*parsed, weights, std::move(tokenizer), options);
}

}  // namespace

const std::map<std::string, FamilyBuilder>& FamilyBuilders() {
  static const auto* const builders = new std::map<std::string, FamilyBuilder>{
      {"transformer_vq", &BuildStack<MakeVq>},
      {"softmax_transformer", &BuildStack<MakeSoftmax>},
      {"linear_transformer", &BuildStack<MakeLinear>},
      {"soft_codebook", &BuildStack<MakeLinear>},
      {"performer", &BuildStack<MakeLinear>},
      {"vq_encoder", &BuildEncoder},
  };
  return *builders;
}

}  // namespace tvq
