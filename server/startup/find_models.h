#ifndef TVQ_SERVER_STARTUP_FIND_MODELS_H_
#define TVQ_SERVER_STARTUP_FIND_MODELS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/startup/flags.h"

namespace tvq {

// The folders right below `dir` that hold a config.json, each under its own name, in the order of
// their names. INVALID_ARGUMENT that names `dir` if it cannot be read or has none.
absl::StatusOr<std::vector<ModelFlag>> FindModels(const std::string& dir);

}  // namespace tvq

#endif  // TVQ_SERVER_STARTUP_FIND_MODELS_H_
