#ifndef TVQ_BASE_THREAD_TIMES_H_
#define TVQ_BASE_THREAD_TIMES_H_

#include <chrono>
#include <map>

namespace tvq {

// Processor time that each thread of this process has had, by its id (gettid).
using ThreadTimes = std::map<int, std::chrono::nanoseconds>;

// Some 2 us for each thread. Empty if the system does not say, as without a descriptor.
ThreadTimes ReadThreadTimes();

// The most that one thread has had from `then` to `now`.
std::chrono::nanoseconds MostBetween(const ThreadTimes& then, const ThreadTimes& now);

}  // namespace tvq

#endif  // TVQ_BASE_THREAD_TIMES_H_
