// The families that this build knows, by config.json's model_type.
#ifndef TVQ_MODELS_RUNTIME_FAMILIES_FAMILIES_H_
#define TVQ_MODELS_RUNTIME_FAMILIES_FAMILIES_H_

#include <vector>

#include "absl/status/statusor.h"
#include "models/runtime/families/family.h"

namespace tvq {

// Sorted by name.
const std::vector<Family>& AllFamilies();

// The family of the config's model_type. INVALID_ARGUMENT, naming all families, if there is none.
absl::StatusOr<const Family*> FindFamily(const Config& config);

}  // namespace tvq

#endif  // TVQ_MODELS_RUNTIME_FAMILIES_FAMILIES_H_
