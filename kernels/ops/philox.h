// Philox 4x32-10, a counter-based random number generator (Salmon, Moraes, Dror, Shaw: Parallel
// Random Numbers: As Easy as 1, 2, 3; SC 2011): a number is a function of key and counter, so that
// every backend draws the same ones without any state.
#ifndef TVQ_KERNELS_OPS_PHILOX_H_
#define TVQ_KERNELS_OPS_PHILOX_H_

#include <array>
#include <cstdint>

namespace tvq {

constexpr std::array<uint32_t, 4> Philox4x32(std::array<uint32_t, 4> counter,
                                             std::array<uint32_t, 2> key) {
  constexpr uint64_t kMultiplier0 = 0xD2511F53;
  constexpr uint64_t kMultiplier1 = 0xCD9E8D57;
  constexpr uint32_t kWeyl0 = 0x9E3779B9;
  constexpr uint32_t kWeyl1 = 0xBB67AE85;
  constexpr int kRounds = 10;
  for (int round = 0; round < kRounds; ++round) {
    const uint64_t product0 = kMultiplier0 * counter[0];
    const uint64_t product1 = kMultiplier1 * counter[2];
    counter = {static_cast<uint32_t>(product1 >> 32) ^ counter[1] ^ key[0],
               static_cast<uint32_t>(product1),
               static_cast<uint32_t>(product0 >> 32) ^ counter[3] ^ key[1],
               static_cast<uint32_t>(product0)};
    key = {key[0] + kWeyl0, key[1] + kWeyl1};
  }
  return counter;
}

// Uniform in [0, 1) with 53 bits: the number that draws the token of `position` for one sample of a
// request.
constexpr double DrawUniform(uint64_t seed, uint64_t sample_index, uint64_t position) {
  const auto low = [](uint64_t x) { return static_cast<uint32_t>(x); };
  const auto high = [](uint64_t x) { return static_cast<uint32_t>(x >> 32); };
  const std::array<uint32_t, 4> bits =
      Philox4x32({low(position), high(position), low(sample_index), high(sample_index)},
                 {low(seed), high(seed)});
  const uint64_t mantissa = (uint64_t{bits[0]} << 32 | bits[1]) >> 11;
  return static_cast<double>(mantissa) * 0x1p-53;
}

}  // namespace tvq

#endif  // TVQ_KERNELS_OPS_PHILOX_H_
