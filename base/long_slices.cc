#include "base/long_slices.h"

// Not together with <sched.h>: they declare the same.
#include <linux/sched/types.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace tvq {
namespace {

// Linux's own are 0.7 to 3 ms, by version and number of cores. Not much longer than these, since
// threads of one pool have the same and may meet on a core.
constexpr __u64 kSliceNs = 4'000'000;

// Of <linux/sched.h>: the policies whose threads take turns on a core by their slices.
constexpr __u32 kNormal = 0;
constexpr __u32 kBatch = 3;

}  // namespace

void TakeLongSlices() {
  sched_attr attributes = {};
  if (syscall(SYS_sched_getattr, 0, &attributes, sizeof(attributes), 0) != 0) return;
  if (attributes.sched_policy != kNormal && attributes.sched_policy != kBatch) return;
  if (attributes.sched_runtime >= kSliceNs) return;
  attributes.sched_runtime = kSliceNs;
  (void)syscall(SYS_sched_setattr, 0, &attributes, 0);
}

}  // namespace tvq
