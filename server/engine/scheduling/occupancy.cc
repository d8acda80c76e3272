#include "server/engine/scheduling/occupancy.h"

#include <algorithm>
#include <iterator>

namespace tvq {

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

Occupancy::Taken Occupancy::TakenWith(const std::string& owner) const {
  const auto it = owners_.find(owner);
  return {.all = taken_, .mine = it == owners_.end() ? Need{} : it->second};
}

Occupancy::Taken Occupancy::FairlyTakenWith(const std::string& owner) const {
  Taken taken = TakenWith(owner);
  const auto owners = std::max<int64_t>(1, std::ssize(owners_));
  for (const auto kind : {&Need::sequences, &Need::state_bytes, &Need::prompt_tokens}) {
    const int64_t others = taken.all.*kind - taken.mine.*kind;
    const int64_t parts = Share(kind).common() / owners * (owners - 1);
    taken.all.*kind = taken.mine.*kind + std::min(others, parts);
  }
  return taken;
}

bool Occupancy::HasRoom(const Need& need, const Need& all) const {
  return need.sequences <= total_.sequences - all.sequences &&
         need.state_bytes <= total_.state_bytes - all.state_bytes &&
         need.prompt_tokens <= total_.prompt_tokens - all.prompt_tokens;
}

bool Occupancy::MayTake(const std::string& owner, const OwnerLimits& limits, const Need& need,
                        const Taken& taken) const {
  Need mine = taken.mine;
  mine += need;
  if (!limits.Admit(mine.sequences)) return false;
  if (owner.empty()) return true;
  const bool begins = taken.mine == Need{};
  const auto is_fair = [&](int64_t Need::* kind) {
    const FairShare share = Share(kind);
    return begins ? share.MayBegin(need.*kind, taken.all.*kind)
                  : share.MayHave(mine.*kind, taken.all.*kind + need.*kind);
  };
  if (!is_fair(&Need::prompt_tokens)) return false;
  if (begins && need.sequences == 1) return true;
  return is_fair(&Need::sequences) && is_fair(&Need::state_bytes);
}

void Occupancy::Add(uint64_t id, const std::string& owner, const Need& need, Time now) {
  taken_ += need;
  const auto mine = owners_.try_emplace(owner).first;
  mine->second += need;
  places_[id] = running_.insert(
      running_.end(),
      Running{.owner = &mine->first, .need = need, .started = now, .number = started_++});
}

void Occupancy::Release(uint64_t id, const Need& need) {
  const auto place = places_.find(id);
  Running& running = *place->second;
  const auto owner = owners_.find(*running.owner);
  taken_ -= need;
  running.need -= need;
  owner->second -= need;
  if (running.need != Need{}) return;
  running_.erase(place->second);
  places_.erase(place);
  if (owner->second == Need{}) owners_.erase(owner);
}

}  // namespace tvq
