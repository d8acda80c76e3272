// What running requests take, and whether one more may start. No threads, no clock.
#ifndef TVQ_SERVER_ENGINE_SCHEDULING_OCCUPANCY_H_
#define TVQ_SERVER_ENGINE_SCHEDULING_OCCUPANCY_H_

#include <chrono>
#include <cstdint>
#include <list>
#include <map>
#include <string>
#include <unordered_map>

#include "base/fair_share.h"
#include "server/engine/request/owner_limits.h"

namespace tvq {

// What a request needs for its whole life, so that it never has to be preempted.
struct Need {
  int64_t sequences = 0;
  int64_t state_bytes = 0;  // of all samples, each the same
  // The prompt's, which stay in host memory, and tokens for what else the request keeps there.
  int64_t prompt_tokens = 0;

  Need& operator+=(const Need& other);
  Need& operator-=(const Need& other);
  bool operator==(const Need&) const = default;
};

// Each kind is shared fairly among owners with names (FairShare, 15 times): alone one may have some
// 7/8. A request of one sequence may always start if its owner takes nothing and its state has
// room; its prompt has to leave some for others. The owner without a name is the server itself, and
// may have all.
//
// A request that has ended and left a state counts as running with that alone, until it is gone.
//
// Not thread-safe.
class Occupancy {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // `total`: the most of each kind.
  explicit Occupancy(const Need& total) : total_(total) {}

  // What some requests take together, and what those of one owner take of it.
  struct Taken {
    Need all;
    Need mine;
  };
  // What running requests take; `mine` is the owner's.
  Taken TakenWith(const std::string& owner) const;
  // The same, but of what the others take no more than the equal parts of all owners but this one.
  Taken FairlyTakenWith(const std::string& owner) const;
  // Whether so much is left beside the requests that take `all`. Of bytes, idle states may take
  // some of that: those are for the budget to say.
  bool HasRoom(const Need& need, const Need& all) const;
  // Whether the owner may take so much more beside what is taken.
  bool MayTake(const std::string& owner, const OwnerLimits& limits, const Need& need,
               const Taken& taken) const;

  // A request starts. Times never go back.
  void Add(uint64_t id, const std::string& owner, const Need& need, Time now);
  // The request gives so much back, of what it took.
  void Release(uint64_t id, const Need& need);

  struct Running {
    const std::string* owner = nullptr;
    Need need;
    Time started;
    uint64_t number = 0;  // how many had started before it
  };
  // In the order in which they started.
  const std::list<Running>& running() const { return running_; }
  uint64_t started() const { return started_; }  // how many have, ever

  const Need& total() const { return total_; }
  const Need& taken() const { return taken_; }

 private:
  FairShare Share(int64_t Need::* kind) const { return {total_.*kind, 15}; }

  const Need total_;
  Need taken_;
  std::map<std::string, Need> owners_;  // that take something
  std::list<Running> running_;
  std::unordered_map<uint64_t, std::list<Running>::iterator> places_;  // in running_
  uint64_t started_ = 0;
};

}  // namespace tvq

#endif  // TVQ_SERVER_ENGINE_SCHEDULING_OCCUPANCY_H_
