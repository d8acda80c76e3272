// The speed at which this machine's threads can read memory.
#ifndef TVQ_TESTS_BENCH_READ_CEILING_H_
#define TVQ_TESTS_BENCH_READ_CEILING_H_

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/thread_pool.h"

namespace tvq::bench {

// Owns a buffer far larger than any cache, on huge pages, and reads all of it with vector loads.
class ReadCeiling {
 public:
  // With 1 GiB less than 5% can be left by the pass before in a cache of 32 MiB.
  explicit ReadCeiling(size_t bytes);
  ~ReadCeiling();
  ReadCeiling(const ReadCeiling&) = delete;
  ReadCeiling& operator=(const ReadCeiling&) = delete;

  // GB/s (1e9 bytes) of `passes` passes over the buffer by the threads of `pool`, which take tiles
  // of 2 MiB as they get to them.
  double Measure(ThreadPool& pool, int passes = 3);

  // Seconds of reading `bytes` in whole tiles, at least one, from where the call before ended.
  double ReadOn(ThreadPool& pool, int64_t bytes);

 private:
  char* data_ = nullptr;
  size_t bytes_ = 0;
  void* mapping_ = nullptr;
  size_t mapping_bytes_ = 0;
  // `count` tiles from `first` on, and around from the last to the first. Seconds.
  double ReadTiles(ThreadPool& pool, int64_t first, int64_t count);

  int64_t next_tile_ = 0;  // of ReadOn
  uint64_t sum_ = 0;       // keeps the loads from being optimised away
};

}  // namespace tvq::bench

#endif  // TVQ_TESTS_BENCH_READ_CEILING_H_
