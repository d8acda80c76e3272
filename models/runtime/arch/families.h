// The families this build knows, by config.json's model_type.
#ifndef TVQ_MODELS_RUNTIME_ARCH_FAMILIES_H_
#define TVQ_MODELS_RUNTIME_ARCH_FAMILIES_H_

#include <map>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "models/runtime/registry.h"

namespace tvq {

using FamilyBuilder = absl::StatusOr<std::unique_ptr<Model>> (*)(const Config&, WeightSource&,
                                                                 std::unique_ptr<Tokenizer>,
                                                                 const LoadOptions&);

const std::map<std::string, FamilyBuilder>& FamilyBuilders();

}  // namespace tvq

#endif  // TVQ_MODELS_RUNTIME_ARCH_FAMILIES_H_
