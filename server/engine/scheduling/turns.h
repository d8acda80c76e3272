// Whose turn it is within a step. No threads, no clock: names and numbers in, an order out.
#ifndef TVQ_SERVER_ENGINE_SCHEDULING_TURNS_H_
#define TVQ_SERVER_ENGINE_SCHEDULING_TURNS_H_

#include <cstdint>
#include <list>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>

namespace tvq {

// Owners take turns by deficit round robin (Shreedhar and Varghese, "Efficient Fair Queuing Using
// Deficit Round Robin", 1996): each round gives an owner credit for its weight times the quantum,
// and it has turns as long as it has credit. Credit that an owner cannot use in a step is lost, so
// idle time earns nothing. Between the entries of one owner the lower priority value goes first;
// entries of one priority take turns. Rounds go on across steps. An operation takes time that is
// logarithmic in the number of priorities of an owner, and Next passes each owner at most once for
// each turn that it gives, and once more; if all have weights below 1, so many times as often as
// the largest of these needs to make 1. Not thread-safe.
class Turns {
 public:
  // A weight of 1; divisible by small numbers, as a weight may be a part of one.
  static constexpr int64_t kWeight = 720720;

  // `quantum`: what an owner of weight 1 may take in a round.
  explicit Turns(int64_t quantum) : quantum_(quantum) {}
  // Entries point at each other.
  Turns(const Turns&) = delete;
  Turns& operator=(const Turns&) = delete;

  // The entry goes behind the others of its owner and priority. What is said of the owner last
  // counts. `most`: what the owner may take in one step; 0: no limit.
  void Add(uint64_t id, const std::string& owner, int32_t priority, int64_t weight, int64_t most);
  // Of an owner, if it has entries.
  void SetWeight(const std::string& owner, int64_t weight);
  // Of an entry that was added.
  void Remove(uint64_t id);
  bool empty() const { return entries_.empty(); }

  // A step begins: every entry may have turns in it.
  void BeginStep();
  // Whose turn it is; nothing when nobody may have another in this step. The same until one of the
  // next three, or Remove, is called.
  std::optional<uint64_t> Next();

  // What the entry of Next does after it took `cost`:
  enum class Then {
    kStay,    // it is the first of its owner for another turn
    kRotate,  // it goes behind the others of its owner and priority, for another turn in this step
    kRest,    // likewise, but its next turn is in the next step
  };
  void Take(int64_t cost, Then then);

 private:
  struct Owner;
  struct Entry {
    uint64_t id = 0;
    Owner* owner = nullptr;
    int32_t priority = 0;
    bool rests = false;  // it is in Line::rest
  };
  // The entries of one owner and priority, in the order of their turns.
  struct Line {
    std::list<Entry> ready;
    std::list<Entry> rest;  // until the next step; after those in `ready`
  };
  struct Owner {
    std::string name;
    int64_t weight = kWeight;
    int64_t most = 0;
    int64_t credit = 0;  // kWeight for each that it may take
    int64_t taken = 0;   // in `step`
    uint64_t step = 0;   // of the last look at it
    std::map<int32_t, Line> lines;
    std::list<Owner*>::iterator place;  // in ring_
  };

  // The owner's first entry that may have a turn in this step, credit aside; null if none may.
  Entry* FirstOf(Owner& owner);
  void GoOn();  // to the next owner

  const int64_t quantum_;
  std::map<std::string, Owner> owners_;  // that have entries
  std::list<Owner*> ring_;               // of owners_, the one whose turn it is first
  bool credited_ = false;                // the first of ring_ has this round's credit
  std::unordered_map<uint64_t, std::list<Entry>::iterator> entries_;
  uint64_t step_ = 1;
  Entry* next_ = nullptr;  // what Next said
};

}  // namespace tvq

#endif  // TVQ_SERVER_ENGINE_SCHEDULING_TURNS_H_
