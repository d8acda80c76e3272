#include "server/engine/scheduling/fair_queue.h"

#include <algorithm>

namespace tvq {

void FairQueue::Push(uint64_t id, const std::string& owner, int32_t priority, int64_t tokens) {
  Entry& entry = Remembered(owner);
  Owner& o = entry.second;
  if (o.requests.empty()) {
    if (!turns_.empty()) o.served = std::max(o.served, std::get<0>(*turns_.begin()));
    o.turn = ++clock_;
    turns_.insert(TurnOf(entry));
  }
  o.requests.emplace(priority, id);
  o.ids.insert(id);
  places_.emplace(id, Place{&entry, priority, tokens});
}

void FairQueue::Pop(uint64_t id) {
  const auto place = places_.find(id);
  Entry& owner = *place->second.owner;
  turns_.erase(TurnOf(owner));
  owner.second.served += place->second.tokens;
  owner.second.turn = ++clock_;
  owner.second.by_priority = !owner.second.by_priority;
  turns_.insert(TurnOf(owner));
  Erase(place);
}

bool FairQueue::Remove(uint64_t id) {
  const auto place = places_.find(id);
  if (place == places_.end()) return false;
  Erase(place);
  return true;
}

void FairQueue::Erase(std::unordered_map<uint64_t, Place>::iterator place) {
  Entry& owner = *place->second.owner;
  owner.second.requests.erase({place->second.priority, place->first});
  owner.second.ids.erase(place->first);
  if (owner.second.requests.empty()) turns_.erase(TurnOf(owner));
  places_.erase(place);
  if (places_.empty()) owners_.clear();
}

void FairQueue::Charge(const std::string& owner, int64_t tokens) {
  if (places_.empty()) return;
  Entry& entry = Remembered(owner);
  const bool waits = turns_.erase(TurnOf(entry)) > 0;
  entry.second.served += tokens;
  if (waits) turns_.insert(TurnOf(entry));
}

FairQueue::Entry& FairQueue::Remembered(const std::string& owner) {
  if (owners_.size() >= turns_.size() + kMostIdle && !owners_.contains(owner)) {
    std::erase_if(owners_, [](const Entry& entry) { return entry.second.requests.empty(); });
  }
  return *owners_.try_emplace(owner).first;
}

}  // namespace tvq
