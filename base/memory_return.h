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

  // Bytes.
  struct Memory {
    int64_t free = 0;      // in the allocator, whether the system has them or not
    int64_t resident = 0;  // of the process
  };

  // Whether to ask now: if at least kWorthwhileBytes were freed since the last time, or the process
  // has grown by as many since then and as many are free. Only if the look before found so, too, so
  // that the memory is not in use again.
  bool Look(const Memory& memory);

  // The system has nearly all of what is free now.
  void Returned(const Memory& memory);

 private:
  // At a look since then. What was free at the least is what the system may have still.
  Memory least_;
  int looks_ = 0;  // in a row that found enough
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
