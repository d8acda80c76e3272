#include "tests/bench/read_ceiling.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <new>

#include "tests/bench/statistics.h"
#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace tvq::bench {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;
constexpr size_t kTile = kHugePage;

uint64_t SumPlain(const char* data, size_t bytes) {
  uint64_t sums[4] = {};
  for (size_t i = 0; i < bytes; i += sizeof(sums)) {
    uint64_t words[4];
    std::memcpy(words, data + i, sizeof(words));
    for (int j = 0; j < 4; ++j) sums[j] += words[j];
  }
  return sums[0] + sums[1] + sums[2] + sums[3];
}

#if defined(__x86_64__)
// Four independent sums of 64 bytes: enough loads in flight for the hardware prefetcher to be the
// limit. `bytes` is a multiple of 256.
__attribute__((target("avx512f"))) uint64_t SumAvx512(const char* data, size_t bytes) {
  __m512i sums[4] = {};
  for (size_t i = 0; i < bytes; i += 256) {
    for (int j = 0; j < 4; ++j) {
      sums[j] = _mm512_add_epi64(sums[j], _mm512_load_si512(data + i + 64 * j));
    }
  }
  const __m512i sum =
      _mm512_add_epi64(_mm512_add_epi64(sums[0], sums[1]), _mm512_add_epi64(sums[2], sums[3]));
  alignas(64) uint64_t lanes[8];
  _mm512_store_si512(lanes, sum);
  uint64_t total = 0;
  for (const uint64_t lane : lanes) total += lane;
  return total;
}

__attribute__((target("avx2"))) uint64_t SumAvx2(const char* data, size_t bytes) {
  __m256i sums[4] = {};
  for (size_t i = 0; i < bytes; i += 128) {
    for (int j = 0; j < 4; ++j) {
      sums[j] = _mm256_add_epi64(
          sums[j], _mm256_load_si256(reinterpret_cast<const __m256i*>(data + i + 32 * j)));
    }
  }
  const __m256i sum =
      _mm256_add_epi64(_mm256_add_epi64(sums[0], sums[1]), _mm256_add_epi64(sums[2], sums[3]));
  alignas(32) uint64_t lanes[4];
  _mm256_store_si256(reinterpret_cast<__m256i*>(lanes), sum);
  return lanes[0] + lanes[1] + lanes[2] + lanes[3];
}
#endif

using SumFunction = uint64_t (*)(const char*, size_t);

SumFunction BestSum() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) return SumAvx512;
  if (__builtin_cpu_supports("avx2")) return SumAvx2;
#endif
  return SumPlain;
}

}  // namespace

ReadCeiling::ReadCeiling(size_t bytes)
    : bytes_((bytes + kHugePage - 1) / kHugePage * kHugePage), mapping_bytes_(bytes_ + kHugePage) {
  mapping_ =
      mmap(nullptr, mapping_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapping_ == MAP_FAILED) throw std::bad_alloc();
  const size_t misaligned = reinterpret_cast<uintptr_t>(mapping_) % kHugePage;
  data_ = static_cast<char*>(mapping_) + (kHugePage - misaligned) % kHugePage;
  madvise(data_, bytes_, MADV_HUGEPAGE);
  std::memset(data_, 1, bytes_);  // pages never written would all be the one zero page
}

ReadCeiling::~ReadCeiling() { munmap(mapping_, mapping_bytes_); }

double ReadCeiling::ReadTiles(ThreadPool& pool, int64_t first, int64_t count) {
  const SumFunction sum = BestSum();
  const auto tiles = static_cast<int64_t>(bytes_ / kTile);
  std::atomic<uint64_t> total = 0;
  const Stopwatch watch;
  pool.ParallelFor(count, [&](int64_t i) {
    total += sum(data_ + static_cast<size_t>((first + i) % tiles) * kTile, kTile);
  });
  const double seconds = watch.Seconds();
  sum_ += total;
  return seconds;
}

double ReadCeiling::Measure(ThreadPool& pool, int passes) {
  const auto tiles = static_cast<int64_t>(bytes_ / kTile);
  const double seconds = ReadTiles(pool, 0, tiles * passes);
  return static_cast<double>(bytes_) * passes / seconds / 1e9;
}

double ReadCeiling::ReadOn(ThreadPool& pool, int64_t bytes) {
  const int64_t count = std::max<int64_t>(1, bytes / static_cast<int64_t>(kTile));
  const int64_t first = next_tile_;
  next_tile_ = (first + count) % static_cast<int64_t>(bytes_ / kTile);
  return ReadTiles(pool, first, count);
}

}  // namespace tvq::bench
