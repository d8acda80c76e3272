#include "models/runtime/arch/families.h"

#include <utility>

#include "models/runtime/arch/transformer/model.h"
#include "models/runtime/arch/transformer/vq/attention.h"

namespace tvq {
namespace {

// A transformer whose attention is a Kind, made of what `parse` reads from config.json.
template <typename Kind, auto parse>
absl::StatusOr<std::unique_ptr<Model>> Build(const Config& config, WeightSource& weights,
                                             std::unique_ptr<Tokenizer> tokenizer,
                                             const LoadOptions& options) {
  const auto parsed = parse(config);
  if (!parsed.ok()) return parsed.status();
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
      {"transformer_vq", &Build<transformer::VqAttention, &transformer::ParseVqConfig>},
  };
  return *builders;
}

}  // namespace tvq
