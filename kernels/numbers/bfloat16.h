// Conversions between float32 and bfloat16, one value at a time; vector code agrees bit for bit.
#ifndef TVQ_KERNELS_NUMBERS_BFLOAT16_H_
#define TVQ_KERNELS_NUMBERS_BFLOAT16_H_

#include <bit>
#include <cstdint>

#include "kernels/device/tensor.h"

namespace tvq {

constexpr float ToFloat(BFloat16 value) {
  return std::bit_cast<float>(static_cast<uint32_t>(value.bits) << 16);
}

// Nearest, ties to even; subnormals are kept, NaN stays NaN.
constexpr BFloat16 ToBFloat16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const bool nan = (bits & 0x7fffffffU) > 0x7f800000U;
  const uint32_t rounded = (bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16;
  return {static_cast<uint16_t>(nan ? (bits >> 16) | 0x40U : rounded)};
}

// For code that is written for both types.
constexpr float Widen(float value) { return value; }
constexpr float Widen(BFloat16 value) { return ToFloat(value); }
constexpr void StoreAs(float value, float* to) { *to = value; }
constexpr void StoreAs(float value, BFloat16* to) { *to = ToBFloat16(value); }

}  // namespace tvq

#endif  // TVQ_KERNELS_NUMBERS_BFLOAT16_H_
