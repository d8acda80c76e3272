// How often each token occurred, for the sampler's penalties.
#ifndef TVQ_SERVER_ENGINE_REQUEST_TOKEN_COUNTS_H_
#define TVQ_SERVER_ENGINE_REQUEST_TOKEN_COUNTS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "kernels/ops/sample.h"

namespace tvq {

// Distinct ids in the order of first occurrence. Copyable; not thread-safe.
class TokenCounts {
 public:
  void AddPrompt(int32_t id) { ++At(id).in_prompt; }
  void AddOutput(int32_t id) { ++At(id).in_output; }
  std::span<const TokenCount> counts() const { return counts_; }

 private:
  TokenCount& At(int32_t id) {
    const auto [it, added] = index_.try_emplace(id, counts_.size());
    if (added) counts_.push_back({.id = id});
    return counts_[it->second];
  }

  std::unordered_map<int32_t, size_t> index_;
  std::vector<TokenCount> counts_;
};

}  // namespace tvq

#endif  // TVQ_SERVER_ENGINE_REQUEST_TOKEN_COUNTS_H_
