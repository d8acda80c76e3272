#include "server/engine/scheduling/occupancy.h"

namespace tvq {
namespace {

// Whether `mine` is a fair part of `total` if all have taken `all`, `mine` included. Numbers may be
// as large as there are.
bool IsFair(int64_t mine, int64_t all, int64_t total) {
  return mine / kShare + (mine % kShare > 0 ? 1 : 0) <= total - all;
}

}  // namespace

Need& Need::operator+=(const Need& other) {
  sequences += other.sequences;
  state_bytes += other.state_bytes;
  prompt_tokens += other.prompt_tokens;
  return *this;
}

Need& Need::operator-=(const Need& other) {
  sequences -= other.sequences;
  state_bytes -= other.state_bytes;
  prompt_tokens -= other.prompt_tokens;
  return *this;
}

bool Occupancy::HasRoom(const Need& need) const {
  return need.sequences <= total_.sequences - taken_.sequences &&
         need.prompt_tokens <= total_.prompt_tokens - taken_.prompt_tokens;
}

bool Occupancy::MayTake(const std::string& owner, const OwnerLimits& limits,
                        const Need& need) const {
  const auto it = owners_.find(owner);
  Need mine = it == owners_.end() ? Need{} : it->second;
  const bool has_some = mine.sequences > 0;
  mine += need;
  if (limits.max_num_admitted_seqs > 0 && mine.sequences > limits.max_num_admitted_seqs) {
    return false;
  }
  if (!has_some || owner.empty()) return true;
  Need all = taken_;
  all += need;
  return IsFair(mine.sequences, all.sequences, total_.sequences) &&
         IsFair(mine.state_bytes, all.state_bytes, total_.state_bytes) &&
         IsFair(mine.prompt_tokens, all.prompt_tokens, total_.prompt_tokens);
}

void Occupancy::Add(const std::string& owner, const Need& need) {
  taken_ += need;
  const auto [it, fresh] = owners_.try_emplace(owner, need);
  if (!fresh) it->second += need;
}

void Occupancy::Release(const std::string& owner, const Need& need) {
  taken_ -= need;
  const auto it = owners_.find(owner);
  it->second -= need;
  if (it->second.sequences == 0) owners_.erase(it);
}

}  // namespace tvq
