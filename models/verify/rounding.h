// Bounds of how far rounding may move the log-probabilities of a model. tvq-verify, tvq-bench and
// the conformance tests all use them.
#ifndef TVQ_MODELS_VERIFY_ROUNDING_H_
#define TVQ_MODELS_VERIFY_ROUNDING_H_

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>

#include "models/runtime/model.h"

namespace tvq::verify {

// The largest difference that another order of float32 sums may make. Golden data agree within it.
inline constexpr double kFloat32Tolerance = 1e-4;

// What a model with rounded weights is compared with: a model whose weights were not rounded
// (kExact), or one that has the same rounded weights (kSame).
enum class Weights { kExact, kSame };

// The largest root mean square difference of log-probabilities that rounding explains, relative to
// the spread of the log-probabilities (Spread). It holds if codes are forced to be equal and the
// model compared with rounds nothing else. Two models that both round differ by up to sqrt(2) times
// as much. 0: nothing is rounded.
//
// A bfloat16 has 8 bits, so rounding errs by up to half a unit of the last place. In [1, 2) that is
// up to 2^-8, which is at most 2^-8 of the value, and 2^-8 / sqrt(3) in the root mean square, which
// is what counts here. Relative to values whose logarithms are spread evenly it is sqrt(3 / (8 ln
// 2)) times as much, 2^-9.2; relative to the root mean square of values that are themselves spread
// evenly it is 2^-9.4. The bound takes 2^-9 for both.
//
// The places that round are these. If weights are rounded: what each matrix product on a token's
// way reads, info.products of them and one for the logits, and the info.factors factors within
// attention that a prompt may round. With kExact also the weights of these products and of the
// embedding, which err by 2^-9 as bfloat16 or by info.weight_rounding as int8 or int4. If the state
// is bfloat16: info.kept places where it keeps something. The errors of different places are
// independent, so their squares add up. Where a layer multiplies what several products make with
// one another, each of them counts. A log-probability differs by at most twice a logit's error:
// its own and the normaliser's.
double RoundingBound(const ModelInfo& info, Weights weights);

// The same for a prompt of a float32 model on a device that may cut both factors of matrix products
// to 11 bits ("tf32" of MakeDevice), compared with a run that cuts nothing. Each of `products` on a
// token's way, and that of the logits, cuts what it reads and its weight: 2 (products + 1) places
// of at most 2^-10 each.
double Tf32Bound(int64_t products);

// The same for decode of two models that read states in the same way, as an int8 copy or without
// some rows (info.reads). Small differences in float32 can put a value on the other side of the
// border between two integers, or a row's share on the other side of the border between two
// buckets, so that the two models read other values. Each of info.kept places then differs by up to
// a step of int8, 1/127 of the largest value with the same scale. Each model also leaves at most m
// = skip_mass out of a softmax and divides the rest by 1 - m, which differs by at most 2 m / (1 -
// m).
double ReadsBound(const ModelInfo& info);

// The root mean square distance of log-probabilities from the mean of their row. A row has `vocab`
// of them.
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
