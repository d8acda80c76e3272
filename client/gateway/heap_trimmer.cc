#include "client/gateway/heap_trimmer.h"

#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>

namespace tvq::gateway {
namespace {

constexpr std::chrono::seconds kPeriod{1};
// So much more in memory, and so much of it free, is worth a trim, which takes milliseconds for
// each 100 MB.
constexpr size_t kWorthIt = size_t{16} << 20;

// Bytes of this process in memory; 0 if the system does not say.
size_t Resident() {
  std::ifstream file("/proc/self/statm");
  size_t all = 0, resident = 0;
  file >> all >> resident;
  return resident * static_cast<size_t>(::sysconf(_SC_PAGESIZE));
}

}  // namespace

HeapTrimmer::HeapTrimmer()
    : resident_(Resident()), thread_([this](const std::stop_token& stop) { Run(stop); }) {}

void HeapTrimmer::Run(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (!stopping_.wait_for(lock, stop, kPeriod, [&stop] { return stop.stop_requested(); })) {
    Look();
  }
}

void HeapTrimmer::Look() {
  const size_t resident = Resident();
  resident_ = std::min(resident_, resident);
  // What is free counts also where it was given back before: growth says whether it was.
  if (resident - resident_ < kWorthIt || ::mallinfo2().fordblks < kWorthIt) return;
  ::malloc_trim(0);
  resident_ = Resident();
}

}  // namespace tvq::gateway
