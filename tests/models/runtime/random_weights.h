// Weights that no training made, for benches and tests of speed and agreement: float32 of any
// name and shape, values a function of (seed, name, shape) alone.
//
// By name: norm gains and codebook counts are 1, biases 0; u, w and position.scale are normal,
// standard deviation 0.02; codebook sums are normal with the rms of a normalised key, K^(-1/4);
// every other tensor is normal with standard deviation fan_in^(-1/2), fan_in being its last size.
//
// "Normal" is the sum of the four 16-bit parts of a 64-bit hash of (seed, name, shape, index):
// bounded by sqrt(12) standard deviations, and cheap, about 1 ns a value.
#ifndef TVQ_TESTS_MODELS_RUNTIME_RANDOM_WEIGHTS_H_
#define TVQ_TESTS_MODELS_RUNTIME_RANDOM_WEIGHTS_H_

#include <cstdint>
#include <memory>

#include "models/runtime/weights.h"

namespace tvq {

// Has is always true.
std::unique_ptr<WeightSource> RandomWeights(uint64_t seed);

}  // namespace tvq

#endif  // TVQ_TESTS_MODELS_RUNTIME_RANDOM_WEIGHTS_H_
