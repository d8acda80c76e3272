// min_p, top_k and top_p over the exponentials of a row, and the draw, by all threads of a block.
//
// Nothing is sorted: a threshold is found by radix selection, eight bits of the float a pass.
// Masses are fixed-point numbers, so that their sums are exact: neither the order of the atomic
// additions nor the number of threads can be seen in a result.
#ifndef TVQ_KERNELS_CUDA_SAMPLE_SAMPLE_FILTER_CUH_
#define TVQ_KERNELS_CUDA_SAMPLE_SAMPLE_FILTER_CUH_

#include "kernels/cuda/token_logprobs/row_logprobs.cuh"

namespace tvq::TVQ_CUDA {

using Mass = unsigned long long;

// The largest exponential is 1 and has mass 2^40; what is below 2^-41 has no mass and cannot be
// drawn. The masses of fewer than 2^24 ids add up without overflow.
__device__ inline Mass MassOf(float e) {
  return static_cast<Mass>(__double2ull_rn(static_cast<double>(e) * 0x1p40));
}
__device__ inline uint32_t KeyOf(float e) { return __float_as_uint(e); }  // e >= 0: same order

struct FilterShared {
  Mass bucket[256];
  Mass sums[kRowThreads];
  Mass above;
  uint32_t prefix;
  int64_t found;
};

// Which entries of a row are kept: those with e >= least and e >= tie; of those that equal `tie`,
// only ids up to last_tie.
struct Kept {
  float least = 0;
  float tie = 0;
  int64_t last_tie = INT64_MAX;

  __device__ bool operator()(float e, int64_t id) const {
    if (e <= 0 || e < least || e < tie) return false;
    return e > tie || id <= last_tie;
  }
};

// The sum of mass(i) over [0, vocab), for every thread.
template <typename MassAt>
__device__ Mass TotalMass(int64_t vocab, const MassAt& mass, FilterShared& shared) {
  Mass sum = 0;
  for (int64_t i = threadIdx.x; i < vocab; i += kRowThreads) sum += mass(i);
  shared.sums[threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int t = 1; t < kRowThreads; ++t) sum += shared.sums[t];
    shared.above = sum;
  }
  __syncthreads();
  sum = shared.above;
  __syncthreads();
  return sum;
}

// The first id at which the running sum of mass(i) exceeds `target`; target < the total.
template <typename MassAt>
__device__ int64_t WalkUpwards(int64_t vocab, Mass target, const MassAt& mass,
                               FilterShared& shared) {
  const int64_t each = (vocab + kRowThreads - 1) / kRowThreads;
  const int64_t first = min(static_cast<int64_t>(threadIdx.x) * each, vocab);
  const int64_t end = min(first + each, vocab);
  Mass own = 0;
  for (int64_t i = first; i < end; ++i) own += mass(i);
  shared.sums[threadIdx.x] = own;
  __syncthreads();
  Mass sum = 0;
  for (int t = 0; t < static_cast<int>(threadIdx.x); ++t) sum += shared.sums[t];
  if (sum <= target && target < sum + own) {
    int64_t i = first;
    for (sum += mass(i); sum <= target; sum += mass(i)) ++i;
    shared.found = i;
  }
  __syncthreads();
  const int64_t found = shared.found;
  __syncthreads();
  return found;
}

// The largest float v such that the mass of entries >= v reaches `need`, which is above 0 and at
// most the total; `above` becomes the mass of entries > v. mass(i) is 0 for what does not count.
template <typename MassAt>
__device__ float SelectThreshold(const float* e, int64_t vocab, Mass need, const MassAt& mass,
                                 FilterShared& shared, Mass* above) {
  if (threadIdx.x == 0) {
    shared.prefix = 0;
    shared.above = 0;
  }
  for (int shift = 24; shift >= 0; shift -= 8) {
    for (int b = static_cast<int>(threadIdx.x); b < 256; b += kRowThreads) shared.bucket[b] = 0;
    __syncthreads();
    const uint32_t prefix = shared.prefix;
    for (int64_t i = threadIdx.x; i < vocab; i += kRowThreads) {
      const uint32_t key = KeyOf(e[i]);
      // The bits above this pass's must be those found so far.
      if ((static_cast<uint64_t>(key) >> (shift + 8)) != prefix) continue;
      if (const Mass m = mass(i); m > 0) atomicAdd(&shared.bucket[key >> shift & 0xffU], m);
    }
    __syncthreads();
    if (threadIdx.x == 0) {
      int b = 255;
      while (b > 0 && shared.above + shared.bucket[b] < need) shared.above += shared.bucket[b--];
      shared.prefix = prefix << 8 | static_cast<uint32_t>(b);
    }
    __syncthreads();
  }
  const float threshold = __uint_as_float(shared.prefix);
  *above = shared.above;
  __syncthreads();
  return threshold;
}

// e [vocab]: exponentials, the largest is 1. `row` has the numbers of a sampler.
template <typename Row>
__device__ Kept FilterRow(const float* e, int64_t vocab, const Row& row, FilterShared& shared) {
  Kept kept{.least = row.min_p};
  Mass above = 0;
  if (row.top_k > 0 && row.top_k < vocab) {
    const auto one = [&](int64_t i) -> Mass { return kept(e[i], i) ? 1 : 0; };
    const Mass count = TotalMass(vocab, one, shared);
    const auto most = static_cast<Mass>(row.top_k);
    if (most < count) {
      const float kth = SelectThreshold(e, vocab, most, one, shared, &above);
      kept.least = kth > kept.least ? kth : kept.least;
    }
  }
  if (row.top_p < 1) {
    const Kept before = kept;
    const auto mass = [&](int64_t i) -> Mass { return before(e[i], i) ? MassOf(e[i]) : 0; };
    const double share =
        static_cast<double>(row.top_p) * static_cast<double>(TotalMass(vocab, mass, shared));
    const Mass need = share > 1 ? static_cast<Mass>(ceil(share)) : 1;
    kept.tie = SelectThreshold(e, vocab, need, mass, shared, &above);
    // Of entries that equal `tie` the lower ids come first, as many as it takes to reach `need`.
    const float tie = kept.tie;
    const Mass ties = (need - above + MassOf(tie) - 1) / MassOf(tie);
    const auto equal = [&](int64_t i) -> Mass { return e[i] == tie ? 1 : 0; };
    kept.last_tie = WalkUpwards(vocab, ties - 1, equal, shared);
  }
  return kept;
}

// The id that the uniform number draws among what is kept.
__device__ inline int64_t DrawRow(const float* e, int64_t vocab, const Kept& kept, double uniform,
                                  FilterShared& shared) {
  const auto mass = [&](int64_t i) -> Mass { return kept(e[i], i) ? MassOf(e[i]) : 0; };
  const Mass total = TotalMass(vocab, mass, shared);
  const Mass target = static_cast<Mass>(uniform * static_cast<double>(total));
  return WalkUpwards(vocab, target < total ? target : total - 1, mass, shared);
}

}  // namespace tvq::TVQ_CUDA

#endif  // TVQ_KERNELS_CUDA_SAMPLE_SAMPLE_FILTER_CUH_
