// How far rounding may move the log-probabilities of a model: the one derivation behind tvq-verify,
// tvq-bench and the conformance tests.
#ifndef TVQ_MODELS_VERIFY_ROUNDING_H_
#define TVQ_MODELS_VERIFY_ROUNDING_H_

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>

#include "models/runtime/model.h"

namespace tvq::verify {

// Of sums of float32 in another order: golden data agree to this outright.
inline constexpr double kFloat32Tolerance = 1e-4;

// What a model with rounded weights is compared with: a model whose weights were not rounded, or
// one that has the same rounded weights.
enum class Weights { kExact, kSame };

// The largest root mean square difference of log-probabilities that rounding explains, per spread
// of the log-probabilities (Spread), where codes are forced to be equal and what is compared with
// rounds nothing else. Two models that both round differ by up to sqrt(2) times as much. 0: nothing
// is rounded.
//
// Rounding to bfloat16, of 8 bits, errs by up to half a unit of the last place: by up to 2^-8 in
// [1, 2), which is up to 2^-8 of a value, and in the root mean square by 2^-8 / sqrt(3). That is
// what counts here: relative to values whose logarithms are spread evenly it is sqrt(3 / (8 ln 2))
// times as much, 2^-9.2, and relative to the root mean square of values that are spread evenly
// themselves 2^-9.4. 2^-9 is taken for both. With rounded weights every matrix product on a token's
// way rounds what it reads, info.products one behind the other and the logits': one place more than
// products. Rounded weights stand at as many, and the embedding at one more; each errs by 2^-9 as
// bfloat16, by info.weight_rounding of its matrix as int8 or int4. Factors within attention that a
// prompt may round then are info.factors places. What states keep as bfloat16 are info.kept places.
// Errors of different places are independent, so that their squares add up; a log-probability
// differs by at most twice a logit's error, its own and the normaliser's.
double RoundingBound(const ModelInfo& info, Weights weights);

// The same for a prompt of a float32 model where the device may cut the factors of its chunks'
// products to 11 bits ("tf32" of MakeDevice): each of `products` on a token's way, one behind the
// other, and the logits' cut what they read and the weight that they read it with, 2 (products + 1)
// places of at most 2^-10 each. Compared with a run that cuts nothing.
double Tf32Bound(int64_t products);

// The same for decode of two models that read states alike, neither exactly nor whole (info.reads):
// where float32 puts a value on the other side of the border of two integers, or a row's share of
// that of two buckets, they read other values. Each of info.kept places then differs by a step of
// int8, 1/127 of the largest that shares its scale, and, because each of the two leaves out of a
// softmax at most m = skip_mass and raises the rest by 1 / (1 - m), by at most 2 m / (1 - m).
double ReadsBound(const ModelInfo& info);

// Root mean square distance of log-probabilities, rows of `vocab`, from their row's mean.
template <typename T>
double Spread(std::span<const T> rows, size_t vocab) {
  double squares = 0;
  for (size_t first = 0; first < rows.size(); first += vocab) {
    const std::span<const T> row = rows.subspan(first, vocab);
    double mean = 0;
    for (const T x : row) mean += static_cast<double>(x) / static_cast<double>(vocab);
    for (const T x : row) squares += (x - mean) * (x - mean);
  }
  return std::sqrt(squares / static_cast<double>(rows.size()));
}

}  // namespace tvq::verify

#endif  // TVQ_MODELS_VERIFY_ROUNDING_H_
