// For which waiting request room is kept. No threads, no clock: times in, decisions out.
#ifndef TVQ_SERVER_ENGINE_SCHEDULING_RESERVATION_H_
#define TVQ_SERVER_ENGINE_SCHEDULING_RESERVATION_H_

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "server/engine/request/owner_limits.h"
#include "server/engine/scheduling/occupancy.h"

namespace tvq {

// A request that waits for room, as far as room is concerned. Names and limits must stay where they
// are until it has started or left.
struct Waiter {
  uint64_t id = 0;
  const std::string* owner = nullptr;
  const OwnerLimits* limits = nullptr;
  Need need;
  Occupancy::Time since;  // when it began to wait
};

// Requests that fit start beside one that does not, so a large one could wait for ever. Therefore
// room is kept for one of them at a time, in the order of turns: others start only if it fits
// beside them once those that run now have ended.
//
// It is not known which of those will end. A request counts as staying if it has run for more than
// half of the time that the large one has waited, or has started since room is kept. Room is kept
// only if the large one fits beside what stays. So a request that only endless streams hold up does
// not hold up others. And if every request ends within a time T, a large one has room kept for it
// after it has waited for 2 T, and starts at the latest after another T.
//
// If the request does not start all the same (because idle states cannot be moved, for one), room
// is kept in vain for at most half of all time. It is given up after half of the time that the
// request had waited, but not before kLeastKept and not after kMostKept. Then no room is kept for
// as long as this was.
//
// Not thread-safe.
class Reservation {
 public:
  using Time = Occupancy::Time;
  static constexpr std::chrono::seconds kLeastKept{10};
  static constexpr std::chrono::minutes kMostKept{1};  // others that fit wait for so long

  // The waiting requests are looked at, in the order of turns. Times never go back. `occupancy`
  // must not go away before the next call.
  void Look(const Occupancy& occupancy, Time now);
  // One does not fit beside what runs or lies idle: it gets the reservation if that is to be had.
  void Offer(const Waiter& waiter);
  // Whether one that fits may start.
  bool MayStart(const Waiter& waiter);
  // It was added to the occupancy.
  void Started(const Waiter& waiter);
  // It waits no longer, and has not started.
  void Left(uint64_t id);

  // For which room is kept.
  std::optional<uint64_t> holder() const;
  // Whether room is kept for it from other owners, too.
  bool HoldsUpOthers(uint64_t id) const { return holder() == id && !lacks_share_; }
  // When to look again although nothing has changed: in the last look the reservation kept a
  // request from starting. Time::max() if it did not.
  Time look_again() const { return look_again_; }

 private:
  // Running requests, summed up in the order of their start.
  class Sums {
   public:
    void Add(Time started, uint64_t number, const Need& need);
    // What those need that started before `middle` or have a number of `kept_from` or above.
    Need Staying(Time middle, uint64_t kept_from) const;

   private:
    struct Sum {
      Time started;
      uint64_t number = 0;
      Need before;  // of all that started before
    };
    std::vector<Sum> sums_;
    Need all_;
  };

  // Makes the sums of this look: at once of all owners, as thousands of them may wait.
  void SumUp();
  // How many had started when room began to be kept: from all, and from those of the same owner.
  struct KeptFrom {
    uint64_t all = 0;
    uint64_t mine = 0;
  };
  // What those take that count as staying.
  Occupancy::Taken Staying(const Waiter& waiter, const KeptFrom& kept_from);
  // Whether other owners need not wait for it: its owner's limit keeps it from starting, or its
  // owner's share would, beside what stays of that owner, even if the others took no more than
  // equal parts.
  bool LacksShare(const Waiter& waiter);
  bool Fits(const Waiter& waiter, const Occupancy::Taken& taken) const;
  void GiveUp();

  const Occupancy* occupancy_ = nullptr;
  Time now_;
  // Of this look, made when they are wanted.
  std::optional<Sums> sums_;                       // of all that runs
  std::unordered_map<std::string, Sums> sums_of_;  // of owners
  std::optional<Occupancy::Taken> beside_;         // what stays beside the holder

  std::optional<Waiter> holder_;
  bool left_ = false;  // the holder has
  bool lacks_share_ = false;
  KeptFrom kept_from_;
  Time kept_since_;
  Time kept_until_;
  Time rests_until_ = Time::min();
  Time look_again_ = Time::max();
};

}  // namespace tvq

#endif  // TVQ_SERVER_ENGINE_SCHEDULING_RESERVATION_H_
