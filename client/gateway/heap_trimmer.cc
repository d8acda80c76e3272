#include "client/gateway/heap_trimmer.h"

#include <malloc.h>

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "base/resident_bytes.h"

namespace tvq::gateway {
namespace {

constexpr std::chrono::seconds kPeriod{1};
// So much more in memory, and so much of it free, is worth a trim, which takes milliseconds for
// each 100 MB.
constexpr int64_t kWorthIt = int64_t{16} << 20;

}  // namespace

HeapTrimmer::HeapTrimmer() : resident_(ResidentBytes()), ticker_(kPeriod, [this] { Look(); }) {}

void HeapTrimmer::Look() {
  const int64_t resident = ResidentBytes();
  resident_ = std::min(resident_, resident);
  // What is free counts also where it was given back before: growth says whether it was.
  if (resident - resident_ < kWorthIt || ::mallinfo2().fordblks < size_t{kWorthIt}) return;
  ::malloc_trim(0);
  resident_ = ResidentBytes();
}

}  // namespace tvq::gateway
