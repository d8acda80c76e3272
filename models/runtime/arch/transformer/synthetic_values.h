// Values for states that nobody fed (State::Synthesize).
#ifndef TVQ_MODELS_RUNTIME_ARCH_TRANSFORMER_SYNTHETIC_VALUES_H_
#define TVQ_MODELS_RUNTIME_ARCH_TRANSFORMER_SYNTHETIC_VALUES_H_

#include <cstdint>

#include "kernels/device/tensor.h"
#include "kernels/numbers/bfloat16.h"

namespace tvq::transformer {

// Splitmix64 (Steele, Lea, Flood 2014): enough for synthetic values.
class SyntheticValues {
 public:
  explicit SyntheticValues(uint64_t seed) : state_(seed) {}

  uint64_t Next() {
    uint64_t z = (state_ += 0x9E3779B97F4A7C15ULL);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
    return z ^ (z >> 31);
  }

  // About the size of silu outputs: uniform in [-0.5, 0.5).
  float NextValue() { return static_cast<float>(Next() >> 40) * 0x1p-24F - 0.5F; }

  // values[index] of `dtype`, float32 or bfloat16.
  void SetNext(void* values, DType dtype, int64_t index) {
    const float value = NextValue();
    if (dtype == DType::kFloat32) {
      static_cast<float*>(values)[index] = value;
    } else {
      static_cast<BFloat16*>(values)[index] = ToBFloat16(value);
    }
  }

 private:
  uint64_t state_;
};

}  // namespace tvq::transformer

#endif  // TVQ_MODELS_RUNTIME_ARCH_TRANSFORMER_SYNTHETIC_VALUES_H_
