// The features that stand for keys in linear attention (ops/attention/linear_attention.h). They are
// made of each head's x, alone or together with the rows R_s of a table; each key/value head has
// its own table. With rows, the features of a query are exp(x . R_s), whose exponents HeadScores
// computes.
//
// * kEluPlusOne: out_i = x_i + 1 where x_i > 0, e^x_i elsewhere; F = K, no rows; for queries, too
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

// The bits of a head depend on that head alone. The cost is N*P*F exponentials and, with rows,
// 2*N*P*F*K operations.
struct FeaturesArgs {
  FeatureMap map = FeatureMap::kEluPlusOne;
  Tensor<const float, 3> x;        // [N, P, K]
  const HeadKeys* rows = nullptr;  // [G, F, K], G divides P; null with kEluPlusOne
  float sigma = 0;                 // above 0; of kSoftAssignment alone
  Tensor<float, 3> out;            // [N, P, F]; with kEluPlusOne it may be x
};

}  // namespace tvq

#endif  // TVQ_KERNELS_OPS_ATTENTION_FEATURES_H_
