#include "server/sessions/placement/recent_prefixes.h"

namespace tvq {
namespace {

uint64_t Mix(uint64_t x) {  // SplitMix64's finalizer
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

}  // namespace

std::vector<uint64_t> PrefixHashes(std::string_view owner, size_t model, int64_t chunk,
                                   std::span<const int32_t> prompt) {
  uint64_t hash = Mix(0x9e3779b97f4a7c15ull + model);
  for (const char c : owner) hash = Mix(hash * 31 + static_cast<unsigned char>(c) + 1);
  std::vector<uint64_t> hashes;
  const size_t whole = prompt.size() - prompt.size() % static_cast<size_t>(chunk);
  for (size_t i = 0; i < whole; ++i) {
    hash = Mix(hash * 31 + static_cast<uint32_t>(prompt[i]) + 1);
    if ((i + 1) % static_cast<size_t>(chunk) == 0) hashes.push_back(hash);
  }
  return hashes;
}

size_t RecentPrefixes::Shared(std::span<const uint64_t> hashes) {
  size_t shared = 0;
  while (shared < hashes.size() && remembered_.contains(hashes[shared])) ++shared;
  for (const uint64_t hash : hashes) {
    by_age_.push_back(hash);
    ++remembered_[hash];
    if (by_age_.size() <= kKept) continue;
    const auto oldest = remembered_.find(by_age_.front());
    if (--oldest->second == 0) remembered_.erase(oldest);
    by_age_.pop_front();
  }
  return shared;
}

}  // namespace tvq
