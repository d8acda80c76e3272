// The beginnings of recent prompts, as hashes.
#ifndef TVQ_SERVER_SESSIONS_PLACEMENT_RECENT_PREFIXES_H_
#define TVQ_SERVER_SESSIONS_PLACEMENT_RECENT_PREFIXES_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace tvq {

// Hash i covers the owner, the model and the first i + 1 chunks of the prompt; what is beyond the
// last whole chunk does not count.
std::vector<uint64_t> PrefixHashes(std::string_view owner, size_t model, int64_t chunk,
                                   std::span<const int32_t> prompt);

// Thread-compatible.
class RecentPrefixes {
 public:
  static constexpr size_t kKept = 1 << 16;  // hashes, about 3 MB

  // How many of the hashes, from the first, a recent prompt had too. Then remembers them all.
  size_t Shared(std::span<const uint64_t> hashes);

 private:
  std::deque<uint64_t> by_age_;                   // the oldest first
  std::unordered_map<uint64_t, int> remembered_;  // how often it is in by_age_
};

}  // namespace tvq

#endif  // TVQ_SERVER_SESSIONS_PLACEMENT_RECENT_PREFIXES_H_
