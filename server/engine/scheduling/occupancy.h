// What running requests take, and whether one more may start. No threads, no clock.
#ifndef TVQ_SERVER_ENGINE_SCHEDULING_OCCUPANCY_H_
#define TVQ_SERVER_ENGINE_SCHEDULING_OCCUPANCY_H_

#include <cstdint>
#include <map>
#include <string>

#include "server/engine/request/owner_limits.h"

namespace tvq {

// What a request needs for its whole life, so that it never has to be preempted.
struct Need {
  int64_t sequences = 0;
  int64_t state_bytes = 0;    // of all samples, each the same
  int64_t prompt_tokens = 0;  // which stay in host memory

  Need& operator+=(const Need& other);
  Need& operator-=(const Need& other);
  bool operator==(const Need&) const = default;
};

// An owner with a name may take at most kShare times what is then left for others, of each kind:
// alone it may have 15/16 of all, so that another that comes finds room whatever the first one does
// (Choudhury and Hahne, "Dynamic Queue Length Thresholds", 1998). An owner that takes nothing may
// always start. The owner without a name is all callers of a server without keys, and may have all.
inline constexpr int64_t kShare = 15;

// Not thread-safe.
class Occupancy {
 public:
  // `total`: the most of each kind.
  explicit Occupancy(const Need& total) : total_(total) {}

  // Whether so much is left. Bytes are for the budget to say, which idle states take from, too.
  bool HasRoom(const Need& need) const;
  // Whether the owner may take so much more.
  bool MayTake(const std::string& owner, const OwnerLimits& limits, const Need& need) const;

  bool TakesSomething(const std::string& owner) const { return owners_.contains(owner); }

  void Add(const std::string& owner, const Need& need);
  void Release(const std::string& owner, const Need& need);

  const Need& taken() const { return taken_; }

 private:
  const Need total_;
  Need taken_;
  std::map<std::string, Need> owners_;  // that take something
};

}  // namespace tvq

#endif  // TVQ_SERVER_ENGINE_SCHEDULING_OCCUPANCY_H_
