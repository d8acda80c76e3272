// Whose request is next. No threads, no clock: names and numbers in, an order out.
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

namespace tvq {

// Owners take turns: the next request is of the owner that was served the fewest tokens (virtual
// token counters: Sheng et al., "Fairness in Serving Large Language Models", 2024). An owner that
// starts to wait is put level with the least served of those that wait already: time without
// requests earns no credit, and another's thousand requests delay a single one by one turn. Between
// the requests of one owner the lower priority value goes first, then the earlier one; but every
// other turn is the earliest's, whatever its priority. Every operation takes logarithmic time, if
// fewer than kMostIdle owners were charged that wait no more. Not thread-safe.
class FairQueue {
 public:
  // Owners that do not wait, remembered as long as somebody waits. Beyond it all are forgotten, and
  // what they were served: there are as many names as addresses.
  static constexpr size_t kMostIdle = 10'000;

  int64_t size() const { return static_cast<int64_t>(places_.size()); }
  size_t remembered() const { return owners_.size(); }  // owners

  // Ids ascend. `tokens` are charged to the owner when its turn comes.
  void Push(uint64_t id, const std::string& owner, int32_t priority, int64_t tokens);

  enum class Visit {
    kTake,       // this one
    kNext,       // not this one
    kNextOwner,  // nor another of its owner
    kEnd,        // none
  };
  // The request that `visit` takes of those that it is shown: all, in the order of turns, each
  // owner's before the next owner's.
  template <typename Visitor>
  std::optional<uint64_t> Find(const Visitor& visit) const;
  // One of these has its turn.
  void Pop(uint64_t id);
  // False if it does not wait.
  bool Remove(uint64_t id);

  // The owner was served more tokens, which count against its next turns. Without effect while
  // nobody waits: then nobody is held up.
  void Charge(const std::string& owner, int64_t tokens);

 private:
  struct Owner {
    int64_t served = 0;
    uint64_t turn = 0;                                // when it joined or had its last turn
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
  using Turn = std::tuple<int64_t, uint64_t, Entry*>;  // (served, turn, owner)

  static Turn TurnOf(Entry& owner) { return {owner.second.served, owner.second.turn, &owner}; }
  void Erase(std::unordered_map<uint64_t, Place>::iterator place);
  Entry& Remembered(const std::string& owner);

  std::map<std::string, Owner> owners_;  // those that wait or were charged since somebody waits
  std::set<Turn> turns_;                 // of owners that wait
  std::unordered_map<uint64_t, Place> places_;
  uint64_t clock_ = 0;
};

template <typename Visitor>
std::optional<uint64_t> FairQueue::Find(const Visitor& visit) const {
  uint64_t shown = 0;
  Visit answer = Visit::kNext;
  const auto show = [&](uint64_t id) {
    shown = id;
    answer = visit(id);
    return answer != Visit::kNext;
  };
  for (const auto& [served, turn, entry] : turns_) {
    const Owner& owner = entry->second;
    if (owner.by_priority) {
      std::ranges::any_of(owner.requests, show, &std::pair<int32_t, uint64_t>::second);
    } else {
      std::ranges::any_of(owner.ids, show);
    }
    if (answer == Visit::kTake) return shown;
    if (answer == Visit::kEnd) break;
  }
  return std::nullopt;
}

}  // namespace tvq

#endif  // TVQ_SERVER_ENGINE_SCHEDULING_FAIR_QUEUE_H_
