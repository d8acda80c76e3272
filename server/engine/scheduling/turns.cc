#include "server/engine/scheduling/turns.h"

#include <algorithm>

namespace tvq {

void Turns::Add(const Asking& request, const std::string& owner, int64_t weight, int64_t most) {
  const auto [it, fresh] = owners_.try_emplace(owner);
  Owner& o = it->second;
  if (fresh) {
    o.name = owner;
    o.order = new_order_();
    o.place = ring_.insert(ring_.end(), &o);
  }
  o.weight = weight;
  o.most = most;
  o.order->Add(request);
  owner_of_[request.id] = &o;
}

void Turns::SetWeight(const std::string& owner, int64_t weight) {
  if (const auto it = owners_.find(owner); it != owners_.end()) it->second.weight = weight;
}

void Turns::Remove(uint64_t id) {
  const auto it = owner_of_.find(id);
  Owner& owner = *it->second;
  owner_of_.erase(it);
  owner.order->Remove(id);
  if (next_ == id) next_.reset();
  if (!owner.order->empty()) return;
  if (owner.place == ring_.begin()) credited_ = false;
  ring_.erase(owner.place);
  owners_.erase(owners_.find(owner.name));
}

void Turns::BeginStep() {
  ++step_;
  next_.reset();
}

std::optional<uint64_t> Turns::Next() {
  if (next_) return next_;
  // Ends when every owner was passed since the last one that may have a turn.
  for (size_t passed = 0; passed < ring_.size();) {
    Owner& owner = *ring_.front();
    const std::optional<uint64_t> first = FirstOf(owner);
    if (!first) {
      owner.credit = std::min<int64_t>(owner.credit, 0);
      ++passed;
      GoOn();
      continue;
    }
    passed = 0;
    if (!credited_) owner.credit += quantum_ * owner.weight;
    credited_ = true;
    if (owner.credit > 0) return next_ = first;
    GoOn();
  }
  return std::nullopt;
}

void Turns::Take(int64_t cost, Then then) {
  Owner& owner = *ring_.front();
  next_.reset();
  owner.credit -= cost * kWeight;
  owner.taken += cost;
  owner.order->Take(cost, then);
}

std::optional<uint64_t> Turns::FirstOf(Owner& owner) {
  if (owner.step != step_) {
    owner.step = step_;
    owner.taken = 0;
    owner.order->BeginStep();
  }
  if (owner.most > 0 && owner.taken >= owner.most) return std::nullopt;
  return owner.order->Next();
}

void Turns::GoOn() {
  ring_.splice(ring_.end(), ring_, ring_.begin());
  credited_ = false;
}

}  // namespace tvq
