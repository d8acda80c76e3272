// Which rows of values a query can do without, once their weights are known
// (kernels/ops/attention/vq_attention.h), on every device.
#ifndef TVQ_KERNELS_NUMBERS_SHARE_BUCKETS_H_
#define TVQ_KERNELS_NUMBERS_SHARE_BUCKETS_H_

#include <algorithm>
#include <bit>
#include <cstdint>

namespace tvq {

// Sorts shares of the softmax by size into buckets: eight for each power of two up to 1; all shares
// below 2^-32 are in the first one. NaN counts as large, so that its row is read and the NaN shows
// in the output.
struct ShareBuckets {
  static constexpr int32_t kBuckets = 256;

  static constexpr int32_t Of(float share) {
    const auto bits = static_cast<int32_t>(std::bit_cast<uint32_t>(share) >> kShift);
    return std::clamp(bits - kLowest, 0, kBuckets - 1);
  }

  // Shares below this lie in buckets below `bucket`.
  static constexpr float Edge(int32_t bucket) {
    return bucket == 0 ? 0 : std::bit_cast<float>((bucket + kLowest) << kShift);
  }

  // Shares below the result are left out: whole buckets of them, at most `skip_mass` together, and
  // never the largest share. below(edge) is the sum of the shares below `edge`; it must not fall
  // when `edge` rises.
  template <class Below>
  static float Threshold(float largest, float skip_mass, const Below& below) {
    int32_t least = 0, most = Of(largest);
    while (least < most) {
      const int32_t middle = (least + most + 1) / 2;
      if (below(Edge(middle)) <= skip_mass) {
        least = middle;
      } else {
        most = middle - 1;
      }
    }
    return Edge(least);
  }

 private:
  static constexpr int kShift = 20;  // leaves sign, exponent and three bits of a float32
  static constexpr int32_t kLowest = (std::bit_cast<int32_t>(1.0F) >> kShift) - kBuckets + 1;
};

}  // namespace tvq

#endif  // TVQ_KERNELS_NUMBERS_SHARE_BUCKETS_H_
