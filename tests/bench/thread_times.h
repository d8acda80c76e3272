#ifndef TVQ_TESTS_BENCH_THREAD_TIMES_H_
#define TVQ_TESTS_BENCH_THREAD_TIMES_H_

#include <set>
#include <string>

namespace tvq::bench {

// The processor time of the threads of this process that were started after this was made.
class ThreadTimes {
 public:
  ThreadTimes();

  // Milliseconds, of those that have not ended. 0 where the system does not say.
  double ProcessorMs() const;

 private:
  std::set<std::string> others_;
};

}  // namespace tvq::bench

#endif  // TVQ_TESTS_BENCH_THREAD_TIMES_H_
