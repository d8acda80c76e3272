// How the values of a read copy are quantized (kernels/ops/attention/vq_attention.h), on every
// device: each number takes one division, one product and one addition, rounded to nearest even.
// For sources that are compiled without contraction to fused multiply-adds.
#ifndef TVQ_KERNELS_NUMBERS_READ_COPY_H_
#define TVQ_KERNELS_NUMBERS_READ_COPY_H_

#include <bit>
#include <cstdint>

namespace tvq {

// 1.5 * 2^23: a number below 2^22 in absolute value that is added to it is rounded to an integer,
// nearest even, and the sum's bits are that integer above kRoundedZero.
inline constexpr float kRoundToInteger = 0x1.8p23F;
inline constexpr int32_t kRoundedZero = std::bit_cast<int32_t>(kRoundToInteger);

// The scale of values whose largest absolute value has the given bits.
struct QuantizedScale {
  float scale = 0;    // of one step
  float inverse = 0;  // steps in a value of 1; 0: every value is 0 steps

  // If the largest value is below 2^-120, its inverse would not be finite: both remain 0, and
  // nothing is lost. If the largest value is not finite, neither is the scale, nor anything that is
  // computed from the row.
  constexpr explicit QuantizedScale(int32_t bits) {
    const auto largest = std::bit_cast<float>(bits);
    if (bits < std::bit_cast<int32_t>(0x1p-120F)) return;
    scale = largest / 127;
    if (bits < 0x7f800000) inverse = 127 / largest;
  }

  // A value, in steps.
  constexpr int8_t Steps(float value) const {
    if (inverse == 0) return 0;
    return static_cast<int8_t>(std::bit_cast<int32_t>(value * inverse + kRoundToInteger) -
                               kRoundedZero);
  }
};

}  // namespace tvq

#endif  // TVQ_KERNELS_NUMBERS_READ_COPY_H_
