#include "models/runtime/registry.h"

#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "models/runtime/arch/families.h"

namespace tvq {

absl::StatusOr<std::unique_ptr<Model>> BuildModel(const Config& config, WeightSource& weights,
                                                  std::unique_ptr<Tokenizer> tokenizer,
                                                  const LoadOptions& options) {
  absl::StatusOr<std::string> type = config.String("model_type");
  if (!type.ok()) return type.status();
  const auto& builders = FamilyBuilders();
  const auto builder = builders.find(*type);
  if (builder == builders.end()) {
    return absl::InvalidArgumentError(
        absl::StrCat(config.source(), ": model_type is \"", *type,
                     "\", must be one of: ", absl::StrJoin(Families(), ", ")));
  }
  return builder->second(config, weights, std::move(tokenizer), options);
}

absl::StatusOr<std::unique_ptr<Model>> LoadModel(const std::string& dir,
                                                 const LoadOptions& options) {
  absl::StatusOr<Config> config = Config::Load(dir);
  if (!config.ok()) return config.status();
  absl::StatusOr<CommonConfig> common = config->Common();
  if (!common.ok()) return common.status();
  absl::StatusOr<GenerationDefaults> generation = LoadGenerationDefaults(dir);
  if (!generation.ok()) return generation.status();
  absl::StatusOr<std::unique_ptr<Tokenizer>> tokenizer = LoadTokenizer(dir, *common);
  if (!tokenizer.ok()) return tokenizer.status();
  absl::StatusOr<std::unique_ptr<WeightSource>> weights = OpenWeights(dir);
  if (!weights.ok()) return weights.status();
  LoadOptions with_defaults = options;
  with_defaults.generation = *generation;
  return BuildModel(*config, **weights, *std::move(tokenizer), with_defaults);
}

std::vector<std::string> Families() {
  std::vector<std::string> names;
  for (const auto& [name, builder] : FamilyBuilders()) names.push_back(name);
  return names;
}

}  // namespace tvq
