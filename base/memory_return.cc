#include "base/memory_return.h"

#include <malloc.h>

#include <algorithm>
#include <chrono>

#include "base/resident_bytes.h"

namespace tvq {
namespace {

constexpr std::chrono::seconds kPeriod{5};

constexpr int kLooks = 2;  // in a row

// In all arenas. A millisecond for 100,000 pieces.
ReturnRule::Memory MemoryNow() {
  return {.free = static_cast<int64_t>(mallinfo2().fordblks), .resident = ResidentBytes()};
}

}  // namespace

bool ReturnRule::Look(const Memory& memory) {
  least_.free = std::min(least_.free, memory.free);
  least_.resident = std::min(least_.resident, memory.resident);
  // What is used and freed again between two looks shows in the process alone.
  const bool freed = memory.free - least_.free >= kWorthwhileBytes;
  const bool grown =
      memory.free >= kWorthwhileBytes && memory.resident - least_.resident >= kWorthwhileBytes;
  looks_ = freed || grown ? looks_ + 1 : 0;
  return looks_ >= kLooks;
}

void ReturnRule::Returned(const Memory& memory) {
  least_ = memory;
  looks_ = 0;
}

MemoryReturn::MemoryReturn() : ticker_(kPeriod, [this] { Look(); }) {}

void MemoryReturn::Look() {
  if (!rule_.Look(MemoryNow())) return;
  malloc_trim(0);
  rule_.Returned(MemoryNow());
}

}  // namespace tvq
