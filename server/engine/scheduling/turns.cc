#include "server/engine/scheduling/turns.h"

#include <algorithm>
#include <utility>

namespace tvq {

void Turns::Add(uint64_t id, const std::string& owner, int32_t priority, int64_t weight,
                int64_t most) {
  const auto [it, fresh] = owners_.try_emplace(owner);
  Owner& o = it->second;
  if (fresh) {
    o.name = owner;
    o.place = ring_.insert(ring_.end(), &o);
  }
  o.weight = weight;
  o.most = most;
  std::list<Entry>& rest = o.lines[priority].rest;
  // It may have a turn in the next step: between steps those that rest are ready.
  entries_[id] =
      rest.insert(rest.end(), Entry{.id = id, .owner = &o, .priority = priority, .rests = true});
}

void Turns::SetWeight(const std::string& owner, int64_t weight) {
  if (const auto it = owners_.find(owner); it != owners_.end()) it->second.weight = weight;
}

void Turns::Remove(uint64_t id) {
  const auto it = entries_.find(id);
  const auto entry = it->second;
  if (next_ == &*entry) next_ = nullptr;
  Owner& owner = *entry->owner;
  const auto line = owner.lines.find(entry->priority);
  (entry->rests ? line->second.rest : line->second.ready).erase(entry);
  entries_.erase(it);
  if (line->second.ready.empty() && line->second.rest.empty()) owner.lines.erase(line);
  if (!owner.lines.empty()) return;
  if (owner.place == ring_.begin()) credited_ = false;
  ring_.erase(owner.place);
  owners_.erase(owners_.find(owner.name));
}

void Turns::BeginStep() {
  ++step_;
  next_ = nullptr;
}

std::optional<uint64_t> Turns::Next() {
  if (next_ != nullptr) return next_->id;
  // Ends when every owner was passed since the last one that may have a turn.
  for (size_t passed = 0; passed < ring_.size();) {
    Owner& owner = *ring_.front();
    Entry* const first = FirstOf(owner);
    if (first == nullptr) {
      owner.credit = std::min<int64_t>(owner.credit, 0);
      ++passed;
      GoOn();
      continue;
    }
    passed = 0;
    if (!credited_) owner.credit += quantum_ * owner.weight;
    credited_ = true;
    if (owner.credit > 0) {
      next_ = first;
      return first->id;
    }
    GoOn();
  }
  return std::nullopt;
}

void Turns::Take(int64_t cost, Then then) {
  Entry& entry = *std::exchange(next_, nullptr);
  Owner& owner = *entry.owner;
  owner.credit -= cost * kWeight;
  owner.taken += cost;
  if (then == Then::kStay) return;
  Line& line = owner.lines[entry.priority];
  entry.rests = then == Then::kRest;
  std::list<Entry>& target = entry.rests ? line.rest : line.ready;
  target.splice(target.end(), line.ready, entries_[entry.id]);
}

Turns::Entry* Turns::FirstOf(Owner& owner) {
  if (owner.step != step_) {
    owner.step = step_;
    owner.taken = 0;
    for (auto& [priority, line] : owner.lines) {
      for (Entry& entry : line.rest) entry.rests = false;
      line.ready.splice(line.ready.end(), line.rest);
    }
  }
  if (owner.most > 0 && owner.taken >= owner.most) return nullptr;
  for (auto& [priority, line] : owner.lines) {
    if (!line.ready.empty()) return &line.ready.front();
  }
  return nullptr;
}

void Turns::GoOn() {
  ring_.splice(ring_.end(), ring_, ring_.begin());
  credited_ = false;
}

}  // namespace tvq
