// Whose turn it is within a step. No threads, no clock: names and numbers in, an order out.
#ifndef TVQ_SERVER_ENGINE_SCHEDULING_TURNS_H_
#define TVQ_SERVER_ENGINE_SCHEDULING_TURNS_H_

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>

#include "server/engine/scheduling/owner_order.h"

namespace tvq {

// Owners take turns by deficit round robin (Shreedhar and Varghese, "Efficient Fair Queuing Using
// Deficit Round Robin", 1996): each round gives an owner credit for its weight times the quantum,
// and it has turns as long as it has credit. Credit that an owner cannot use in a step is lost, so
// idle time earns nothing. Which request of an owner has its turn is for an OwnerOrder to say.
// Rounds go on across steps. For each turn that it gives, Next passes each owner at most once, and
// once more at the end. If all weights are below 1, it passes them as many times as the largest of
// them needs to add up to 1. Not thread-safe.
class Turns {
 public:
  using NewOrder = std::unique_ptr<OwnerOrder> (*)();

  // A weight of 1. It has many divisors, because a weight may be a fraction.
  static constexpr int64_t kWeight = 720720;

  // `quantum`: what an owner of weight 1 may take in a round.
  Turns(int64_t quantum, NewOrder new_order) : quantum_(quantum), new_order_(new_order) {}
  // Owners are pointed at.
  Turns(const Turns&) = delete;
  Turns& operator=(const Turns&) = delete;

  // What is said of the owner last counts. `most`: what the owner may take in one step; 0: no
  // limit.
  void Add(const Asking& request, const std::string& owner, int64_t weight, int64_t most);
  // Of an owner, if it has requests.
  void SetWeight(const std::string& owner, int64_t weight);
  // Of a request that was added.
  void Remove(uint64_t id);
  bool empty() const { return owner_of_.empty(); }

  // A step begins: every request may have turns in it.
  void BeginStep();
  // Whose turn it is; nothing when none may have another in this step. The same until Take or
  // BeginStep is called, or the request is removed.
  std::optional<uint64_t> Next();
  // The request of Next has its turn.
  void Take(int64_t cost, Then then);

 private:
  struct Owner {
    std::string name;
    int64_t weight = kWeight;
    int64_t most = 0;
    int64_t credit = 0;  // kWeight for each that it may take
    int64_t taken = 0;   // in `step`
    uint64_t step = 0;   // of the last look at it
    std::unique_ptr<OwnerOrder> order;
    std::list<Owner*>::iterator place;  // in ring_
  };

  // The owner's first request that may have a turn in this step, credit aside.
  std::optional<uint64_t> FirstOf(Owner& owner);
  void GoOn();  // to the next owner

  const int64_t quantum_;
  const NewOrder new_order_;
  std::map<std::string, Owner> owners_;  // that have requests
  std::list<Owner*> ring_;               // of owners_, the one whose turn it is first
  bool credited_ = false;                // the first of ring_ has this round's credit
  std::unordered_map<uint64_t, Owner*> owner_of_;
  uint64_t step_ = 1;
  std::optional<uint64_t> next_;  // what Next said: of the first of ring_
};

}  // namespace tvq

#endif  // TVQ_SERVER_ENGINE_SCHEDULING_TURNS_H_
