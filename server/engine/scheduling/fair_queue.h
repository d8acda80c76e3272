// Whose request is next. No threads, no real time: names and numbers in, an order out.
#ifndef TVQ_SERVER_ENGINE_SCHEDULING_FAIR_QUEUE_H_
#define TVQ_SERVER_ENGINE_SCHEDULING_FAIR_QUEUE_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

namespace tvq {

// Owners take turns by start-time fair queueing (Goyal, Vin and Cheng, "Start-Time Fair Queuing: A
// Scheduling Algorithm for Integrated Services Packet Switching Networks", 1996). Virtual time is
// counted in tokens. An owner's time is where its last request ends: where that started, and the
// tokens that it was charged. The owner with the earliest time is next.
//
// An owner contends while only other owners keep it from starting: their turns come first, or they
// have what it needs and will give it back. When an owner begins to contend, its time is set to
// where its next request would end if it started at the earliest time of those that contend, but
// not beyond the mean of their times. If none contends, it is set to the latest time of any owner.
// If its own time is later, it keeps that. So as far as requests start in this order:
//
// - Two owners that contend start as many tokens each, but for the largest charge of each, from
//   when both had a turn (Goyal et al., Theorem 1).
// - Before an owner that is not ahead and begins to contend has its turn, each other starts at most
//   as many tokens as its request has, and its own largest charge; and those that contend then
//   start together at most what they are ahead of the earliest, and their largest charges.
// - An owner owes nothing for what it was served while no other contended. Its lead over the
//   earliest owner lapses as others start, even if these are always new: if N owners contend, it is
//   gone when at most about N times as much has started. But once the lead is less than N of their
//   requests, N requests may lower it by no more than an (N + 1)th. If a new owner has several
//   requests, the last one counts as much as the first.
//
// Between the requests of one owner the lower priority value goes first, then the earlier one; but
// every other turn is the earliest's, whatever its priority. Every operation takes logarithmic
// time, if fewer than kMostIdle owners were charged that wait no more. Not thread-safe.
class FairQueue {
 public:
  // So many owners that do not wait are remembered while others wait. If there are more, all of
  // them are forgotten, and what they owe: there may be as many names as addresses.
  static constexpr size_t kMostIdle = 10'000;

  int64_t size() const { return static_cast<int64_t>(places_.size()); }
  size_t remembered() const { return owners_.size(); }  // owners

  // Ids ascend. `tokens` are charged to the owner when its turn comes. An owner that begins to wait
  // contends.
  void Push(uint64_t id, const std::string& owner, int32_t priority, int64_t tokens);

  enum class Visit {
    kTake,       // this one
    kNext,       // not this one, because of others
    kCannot,     // not this one, although others give back what they will
    kNextOwner,  // nor another of its owner, because of the owner's own limits
    kEnd,        // none, because of others
  };
  // Shows requests to `visit` in the order of turns, all of one owner's before the next owner's.
  // Returns the one that it takes. An owner of which requests were shown contends from then on,
  // unless each of the answers was kCannot or kNextOwner.
  template <typename Visitor>
  std::optional<uint64_t> Find(const Visitor& visit);
  // One of these has its turn. Returns where it ends in virtual time.
  int64_t Pop(uint64_t id);
  // False if it does not wait.
  bool Remove(uint64_t id);

  // The owner was served more tokens, which count against its next turns. Without effect while
  // none contends: then none is held up.
  void Charge(const std::string& owner, int64_t tokens);
  // Of what the owner was charged for a request that ends at `end`, so many tokens were not
  // computed. What has lapsed of them is not given back.
  void GiveBack(const std::string& owner, int64_t end, int64_t tokens);

 private:
  struct Owner {
    int64_t time = 0;
    uint64_t turn = 0;                                // when it joined or had its last turn
    bool contends = false;                            // only while it waits
    bool by_priority = true;                          // its next turn goes by priority
    std::set<std::pair<int32_t, uint64_t>> requests;  // (priority, id)
    std::set<uint64_t> ids;                           // of the same
  };
  using Entry = std::map<std::string, Owner>::value_type;
  struct Place {
    Entry* owner;
    int32_t priority;
    int64_t tokens;
  };
  using Turn = std::tuple<int64_t, uint64_t, Entry*>;  // (time, turn, owner)

  static Turn TurnOf(Entry& owner) { return {owner.second.time, owner.second.turn, &owner}; }
  // Out of the order, before its time or turn changes, and back if it waits.
  void TakeOut(Entry& owner);
  void PutBack(Entry& owner);
  void Erase(std::unordered_map<uint64_t, Place>::iterator place);
  Entry& Remembered(const std::string& owner);
  void SetContends(Entry& owner, bool contends);
  // The earliest time of the owners that contend; there must be one.
  int64_t Earliest() const { return std::get<0>(*contending_.begin()); }
  // Where an owner begins to contend whose next request has `tokens`.
  int64_t Beginning(int64_t tokens) const;

  std::map<std::string, Owner> owners_;  // those that wait or were charged since somebody waits
  std::set<Turn> turns_;                 // of owners that wait
  std::set<Turn> contending_;            // of them
  int64_t sum_ = 0;                      // of the times of those that contend
  std::unordered_map<uint64_t, Place> places_;
  int64_t latest_ = 0;  // time of any owner
  uint64_t turn_ = 0;   // the last
};

template <typename Visitor>
std::optional<uint64_t> FairQueue::Find(const Visitor& visit) {
  uint64_t shown = 0;
  Visit answer = Visit::kNext;
  bool contends = false;
  const auto show = [&](uint64_t id) {
    shown = id;
    answer = visit(id);
    contends = contends || (answer != Visit::kCannot && answer != Visit::kNextOwner);
    return answer != Visit::kNext && answer != Visit::kCannot;
  };
  std::vector<Entry*> changed;
  for (const auto& [time, turn, entry] : turns_) {
    const Owner& owner = entry->second;
    contends = false;
    if (owner.by_priority) {
      std::ranges::any_of(owner.requests, show, &std::pair<int32_t, uint64_t>::second);
    } else {
      std::ranges::any_of(owner.ids, show);
    }
    if (contends != owner.contends) changed.push_back(entry);
    if (answer == Visit::kTake || answer == Visit::kEnd) break;
  }
  for (Entry* const entry : changed) SetContends(*entry, !entry->second.contends);
  return answer == Visit::kTake ? std::optional(shown) : std::nullopt;
}

}  // namespace tvq

#endif  // TVQ_SERVER_ENGINE_SCHEDULING_FAIR_QUEUE_H_
