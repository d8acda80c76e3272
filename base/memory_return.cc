#include "base/memory_return.h"

#include <malloc.h>

#include <algorithm>
#include <chrono>

namespace tvq {
namespace {

constexpr std::chrono::seconds kPeriod{5};

constexpr int kLooks = 2;  // in a row

// In all arenas, whether the system has its pages or not. A millisecond for 100,000 pieces.
int64_t FreeBytes() { return static_cast<int64_t>(mallinfo2().fordblks); }

}  // namespace

bool ReturnRule::Look(int64_t free) {
  least_ = std::min(least_, free);
  looks_ = free - least_ >= kWorthwhileBytes ? looks_ + 1 : 0;
  return looks_ >= kLooks;
}

void ReturnRule::Returned(int64_t free) {
  least_ = free;
  looks_ = 0;
}

MemoryReturn::MemoryReturn() : ticker_(kPeriod, [this] { Look(); }) {}

void MemoryReturn::Look() {
  if (!rule_.Look(FreeBytes())) return;
  malloc_trim(0);
  rule_.Returned(FreeBytes());
}

}  // namespace tvq
