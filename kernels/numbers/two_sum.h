// A sum of many values as an unevaluated pair of float32.
#ifndef TVQ_KERNELS_NUMBERS_TWO_SUM_H_
#define TVQ_KERNELS_NUMBERS_TWO_SUM_H_

namespace tvq {

// sum + carry += x. Knuth's two-sum adds the rounding error to the carry; then sum takes as much of
// the carry as it can hold. For sources that are compiled without contraction to fused
// multiply-adds.
constexpr void AddTwoSum(float x, float& sum, float& carry) {
  const float total = sum + x;
  const float other = total - sum;
  const float error = (sum - (total - other)) + (x - other);
  const float rest = carry + error;
  sum = total + rest;
  carry = rest - (sum - total);
}

}  // namespace tvq

#endif  // TVQ_KERNELS_NUMBERS_TWO_SUM_H_
