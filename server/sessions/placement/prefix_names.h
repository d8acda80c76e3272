// Names of the beginnings of prompts, for where they outlive the process.
#ifndef TVQ_SERVER_SESSIONS_PLACEMENT_PREFIX_NAMES_H_
#define TVQ_SERVER_SESSIONS_PLACEMENT_PREFIX_NAMES_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "server/engine/request/request.h"

namespace tvq {

// Name i is that of the first i + 1 chunks: 64 hexadecimal digits, a SHA-256 over `scope`, the
// owner, all of the model that its states depend on, and the tokens. Nobody finds another prompt of
// the same name, so equal names are equal prompts of one owner. What is beyond the last whole chunk
// does not count.
std::vector<std::string> PrefixNames(const std::string& scope, const std::string& owner,
                                     const ModelInfo& model, std::span<const int32_t> prompt);

}  // namespace tvq

#endif  // TVQ_SERVER_SESSIONS_PLACEMENT_PREFIX_NAMES_H_
