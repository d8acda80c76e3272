// Memory that was freed goes back to the system after peaks.
#ifndef TVQ_BASE_MEMORY_RETURN_H_
#define TVQ_BASE_MEMORY_RETURN_H_

#include <cstdint>

#include "base/ticker.h"

namespace tvq {

// When to ask the allocator to give back what is free: that takes milliseconds, a tenth of a second
// of a gigabyte, in which threads that allocate may wait. One thread.
class ReturnRule {
 public:
  static constexpr int64_t kWorthwhileBytes = int64_t{32} << 20;

  // Whether to ask, at a look now and then at how many bytes are `free` in the allocator: when so
  // much was freed since the last time and is not in use again at the next look.
  bool Look(int64_t free);

  // Of what is `free` now, the system has nearly all.
  void Returned(int64_t free);

 private:
  int64_t least_ = 0;  // that was free at a look since then: what the system may have still
  int looks_ = 0;      // in a row that found enough
};

// A thread that looks now and then.
class MemoryReturn {
 public:
  MemoryReturn();

 private:
  void Look();

  ReturnRule rule_;
  Ticker ticker_;  // last: it uses all of the above
};

}  // namespace tvq

#endif  // TVQ_BASE_MEMORY_RETURN_H_
