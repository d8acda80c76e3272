// What those who round weights to integers share: loops that compilers turn into vector
// instructions, for weights are quantized when a server starts.
#ifndef TVQ_KERNELS_QUANTIZE_H_
#define TVQ_KERNELS_QUANTIZE_H_

#include <algorithm>
#include <bit>
#include <cstdint>
#include <span>

namespace tvq {

// The largest |value|, 0 of none; infinity or NaN where one of them is not finite. Numbers are in
// the order of their bits, and integers have an order for any of them.
inline float LargestMagnitude(std::span<const float> values) {
  int32_t bits = 0;
  for (const float value : values) {
    bits = std::max(bits, std::bit_cast<int32_t>(value) & 0x7fffffff);
  }
  return std::bit_cast<float>(bits);
}

// Added to a value below 2^22 it leaves no bits for a fraction: to nearest, ties to even.
inline constexpr float kRoundingShift = 0x1.8p23F;

inline int32_t RoundToInt(float value) {
  return std::bit_cast<int32_t>(value + kRoundingShift) - std::bit_cast<int32_t>(kRoundingShift);
}

}  // namespace tvq

#endif  // TVQ_KERNELS_QUANTIZE_H_
