// How threads that compute share cores with those that have little to do.
#ifndef TVQ_BASE_LONG_SLICES_H_
#define TVQ_BASE_LONG_SLICES_H_

namespace tvq {

// Asks for longer slices of a core for the calling thread, whose policy, nice value and share of
// the core stay as they are. To Linux from 6.12 on (Documentation/scheduler/sched-eevdf.rst) a
// thread that asks for less is the more urgent one: it gets the core when it wakes, instead of at
// the next tick, which is up to 10 ms later. Where the system refuses or knows nothing of it, all
// stays as it was. Threads that this one starts have the same slices.
void TakeLongSlices();

}  // namespace tvq

#endif  // TVQ_BASE_LONG_SLICES_H_
