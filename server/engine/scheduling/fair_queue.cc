#include "server/engine/scheduling/fair_queue.h"

#include <algorithm>
#include <iterator>

namespace tvq {

void FairQueue::Push(uint64_t id, const std::string& owner, int32_t priority, int64_t tokens) {
  Entry& entry = Remembered(owner);
  Owner& o = entry.second;
  const bool begins = o.requests.empty();
  o.requests.emplace(priority, id);
  o.ids.insert(id);
  places_.emplace(id, Place{&entry, priority, tokens});
  if (!begins) return;
  o.turn = ++turn_;
  SetContends(entry, true);
}

int64_t FairQueue::Pop(uint64_t id) {
  const auto place = places_.find(id);
  Entry& entry = *place->second.owner;
  Owner& o = entry.second;
  if (!o.contends) SetContends(entry, true);
  TakeOut(entry);
  o.time += place->second.tokens;
  o.turn = ++turn_;
  o.by_priority = !o.by_priority;
  latest_ = std::max(latest_, o.time);
  const int64_t end = o.time;
  PutBack(entry);
  Erase(place);
  return end;
}

bool FairQueue::Remove(uint64_t id) {
  const auto place = places_.find(id);
  if (place == places_.end()) return false;
  Erase(place);
  return true;
}

void FairQueue::Erase(std::unordered_map<uint64_t, Place>::iterator place) {
  Entry& entry = *place->second.owner;
  Owner& o = entry.second;
  TakeOut(entry);
  o.requests.erase({place->second.priority, place->first});
  o.ids.erase(place->first);
  o.contends = o.contends && !o.requests.empty();
  PutBack(entry);
  places_.erase(place);
  if (places_.empty()) owners_.clear();
}

void FairQueue::Charge(const std::string& owner, int64_t tokens) {
  if (contending_.empty()) return;
  Entry& entry = Remembered(owner);
  Owner& o = entry.second;
  TakeOut(entry);
  if (!o.contends) o.time = std::max(o.time, Earliest());
  o.time += tokens;
  latest_ = std::max(latest_, o.time);
  PutBack(entry);
}

void FairQueue::GiveBack(const std::string& owner, int64_t end, int64_t tokens) {
  const auto it = owners_.find(owner);
  if (it == owners_.end() || contending_.empty()) return;
  Owner& o = it->second;
  const int64_t lapsed = Earliest();
  const int64_t owed = std::clamp<int64_t>(end - lapsed, 0, tokens);
  TakeOut(*it);
  o.time = std::max(o.time - owed, std::min(o.time, lapsed));
  PutBack(*it);
}

void FairQueue::SetContends(Entry& entry, bool contends) {
  Owner& o = entry.second;
  TakeOut(entry);
  o.contends = contends;
  if (contends) {
    const uint64_t next = o.by_priority ? o.requests.begin()->second : *o.ids.begin();
    o.time = std::max(o.time, Beginning(places_.at(next).tokens));
  }
  PutBack(entry);
}

void FairQueue::TakeOut(Entry& entry) {
  turns_.erase(TurnOf(entry));
  if (contending_.erase(TurnOf(entry)) > 0) sum_ -= entry.second.time;
}

void FairQueue::PutBack(Entry& entry) {
  const Owner& o = entry.second;
  if (o.requests.empty()) return;
  turns_.insert(TurnOf(entry));
  if (!o.contends) return;
  contending_.insert(TurnOf(entry));
  sum_ += o.time;
}

int64_t FairQueue::Beginning(int64_t tokens) const {
  if (contending_.empty()) return latest_;
  // Rounded up: otherwise owners that are always new would always precede one a little ahead.
  const int64_t owners = std::ssize(contending_);
  const int64_t mean = (sum_ + owners - 1) / owners;
  return std::min(Earliest() + tokens, mean);
}

FairQueue::Entry& FairQueue::Remembered(const std::string& owner) {
  if (owners_.size() >= turns_.size() + kMostIdle && !owners_.contains(owner)) {
    std::erase_if(owners_, [](const Entry& entry) { return entry.second.requests.empty(); });
  }
  return *owners_.try_emplace(owner).first;
}

}  // namespace tvq
