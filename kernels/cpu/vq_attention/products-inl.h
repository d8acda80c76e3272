// Two ways to compute prefill's products: in what form weights and rows of values lie, and which
// function multiplies them.
#if defined(TVQ_KERNELS_CPU_VQ_ATTENTION_PRODUCTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TVQ_KERNELS_CPU_VQ_ATTENTION_PRODUCTS_INL_H_
#undef TVQ_KERNELS_CPU_VQ_ATTENTION_PRODUCTS_INL_H_
#else
#define TVQ_KERNELS_CPU_VQ_ATTENTION_PRODUCTS_INL_H_
#endif

#include <algorithm>
#include <cstdint>

#include "hwy/highway.h"
#include "kernels/cpu/packed_product-inl.h"
#include "kernels/cpu/vq_attention/pair_product.h"
#include "kernels/cpu/vq_attention/rounded_weights-inl.h"
#include "kernels/cpu/vq_attention/row_pairs-inl.h"
#include "kernels/cpu/vq_attention/weights-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tvq {
namespace HWY_NAMESPACE {

// In float32, weights divided by their sum.
struct FloatProducts {
  using Weight = float;
  using Rows = float[kPackColumns];
  static constexpr int64_t kRows = 1;  // of values in Rows
  static constexpr int64_t kPassRows = kPackRows;

  static void Weigh(const QueryScores& q, int64_t, float*, float* weight, float*) {
    SoftmaxWeights(q, weight);
  }

  // Packs rows as those from `at` on; values are rounded to what a T can hold.
  template <typename T, typename From>
  static void PackAll(const ValueRows<From>& rows, int64_t columns, Rows* packed, int64_t at) {
    Pack<T>(rows, 0, rows.count, columns, packed[at]);
  }

  static void PackAgain(const float* row, int64_t columns, Rows* packed, int64_t at) {
    std::copy_n(row, columns, packed[at]);
  }

  static void Multiply(const QueryRows& queries, const float*, int64_t offset, int64_t depth,
                       const Rows* packed, int64_t columns, bool accumulate) {
    MultiplyPacked(queries, offset, depth, packed[0], columns, accumulate);
  }
};

// In pairs of bfloat16, with weights relative to the largest one; sums are divided in the end.
// Which positions are a pair follows from their own numbers, so that pairs do not depend on where a
// chunk begins.
struct PairProducts {
  using Weight = BFloat16;
  using Rows = RowPair;
  static constexpr int64_t kRows = 2;
  static constexpr int64_t kPassRows = kPairPassRows;

  static void Weigh(const QueryScores& q, int64_t lead, float* score, BFloat16* weight,
                    float* scale) {
    *scale = 1 / RoundedWeights(q, lead, score, weight);
  }

  template <typename T, typename From>
  static void PackAll(const ValueRows<From>& rows, int64_t columns, Rows* packed, int64_t at) {
    PackPairs(rows, columns, packed, at);
  }

  static void PackAgain(const float* row, int64_t columns, Rows* packed, int64_t at) {
    PackRow(row, at % 2 != 0, false, columns, packed[at / 2]);
  }

  static void Multiply(const QueryRowsOf<BFloat16>& queries, const float* scale, int64_t offset,
                       int64_t depth, const Rows* packed, int64_t columns, bool accumulate) {
    MultiplyPairs(queries, scale, offset, depth, packed, columns, accumulate);
  }
};

}  // namespace HWY_NAMESPACE
}  // namespace tvq
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
