#include "models/runtime/arch/families.h"

#include <algorithm>
#include <utility>

#include "models/runtime/arch/transformer/encoder/attention.h"
#include "models/runtime/arch/transformer/linear/attention.h"
#include "models/runtime/arch/transformer/model.h"
#include "models/runtime/arch/transformer/softmax/attention.h"
#include "models/runtime/arch/transformer/vq/attention.h"

namespace tvq {
namespace {

// The longest context that is allowed, in tokens; 0: no limit.
int64_t LongestContext(const CommonConfig& config, const LoadOptions& options, bool states_grow) {
  const int64_t own = config.max_position, asked = options.max_model_len;
  if (own > 0 && asked > 0) return std::min(own, asked);
  if (own > 0 || asked > 0) return std::max(own, asked);
  return states_grow ? kDefaultMaxModelLen : 0;
}

// A transformer whose attention is a Kind.
template <typename Kind>
absl::StatusOr<std::unique_ptr<Model>> Build(const Config& config, WeightSource& weights,
                                             std::unique_ptr<Tokenizer> tokenizer,
                                             const LoadOptions& options) {
  auto parsed = transformer::ParseTransformerConfig(config);
  if (!parsed.ok()) return parsed.status();
  parsed->common.max_position = LongestContext(parsed->common, options, Kind::kStatesGrow);
  const DType state_dtype = StateDType(options);
  if (state_dtype == DType::kInt8) {
    return absl::InvalidArgumentError("state_dtype is int8, must be float32 or bfloat16");
  }
  auto attention = std::make_unique<Kind>(*parsed, *options.device, state_dtype);
  return transformer::Transformer::Create(*parsed, std::move(attention), weights,
                                          std::move(tokenizer), options);
}

}  // namespace

const std::map<std::string, FamilyBuilder>& FamilyBuilders() {
  static const auto* const builders = new std::map<std::string, FamilyBuilder>{
      {"transformer_vq", &Build<transformer::VqAttention>},
      {"softmax_transformer", &Build<transformer::SoftmaxAttention>},
      {"linear_transformer", &Build<transformer::LinearAttention>},
      {"soft_codebook", &Build<transformer::LinearAttention>},
      {"performer", &Build<transformer::LinearAttention>},
      {"vq_encoder", &Build<transformer::EncoderAttention>},
  };
  return *builders;
}

}  // namespace tvq
