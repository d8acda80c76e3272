#ifndef TVQ_CLIENT_GATEWAY_HEAP_TRIMMER_H_
#define TVQ_CLIENT_GATEWAY_HEAP_TRIMMER_H_

#include <cstdint>

#include "base/ticker.h"

namespace tvq::gateway {

// Gives memory back to the system after peaks: the allocator keeps what was freed between blocks
// that are in use, hundreds of megabytes after a storm of requests. A thread of its own looks once
// a second.
class HeapTrimmer {
 public:
  HeapTrimmer();

 private:
  void Look();

  int64_t resident_ = 0;  // bytes, after the last trim, or the least since
  Ticker ticker_;         // last: it uses what is above
};

}  // namespace tvq::gateway

#endif  // TVQ_CLIENT_GATEWAY_HEAP_TRIMMER_H_
