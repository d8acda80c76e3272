// What stands for keys in attention by products of features (ops/attention/linear_attention.h):
// each head's x, by itself or compared with rows R_s of a table per key/value head. With rows the
// features of a query are exp(x . R_s), of which HeadScores gives the exponents.
//
// * kEluPlusOne: out_i = x_i + 1 where x_i > 0, e^x_i elsewhere; F = K, no rows; queries, too
// * kSoftAssignment: out_s = softmax_s(-|x - R_s|^2 / (2 sigma^2))
// * kPositive: out_s = exp(x . R_s - |x|^2 / 2)
//
// Sources: Katharopoulos et al. 2020, equation 7; docs/mathematics.md for the soft codebook;
// Choromanski et al. 2021, lemma 1.
#ifndef TVQ_KERNELS_OPS_ATTENTION_FEATURES_H_
#define TVQ_KERNELS_OPS_ATTENTION_FEATURES_H_

#include "kernels/device/tensor.h"
#include "kernels/ops/attention/head_scores.h"
#include "kernels/ops/ops.h"

namespace tvq {

enum class FeatureMap : uint8_t { kEluPlusOne, kSoftAssignment, kPositive };

// The bits of a head depend on that head alone. N*P*F exponentials, 2*N*P*F*K operations with rows.
struct FeaturesArgs {
  FeatureMap map = FeatureMap::kEluPlusOne;
  Tensor<const float, 3> x;        // [N, P, K]
  const HeadKeys* rows = nullptr;  // [G, F, K], G divides P; null with kEluPlusOne
  float sigma = 0;                 // above 0; of kSoftAssignment alone
  Tensor<float, 3> out;            // [N, P, F]; with kEluPlusOne it may be x
};

}  // namespace tvq

#endif  // TVQ_KERNELS_OPS_ATTENTION_FEATURES_H_
