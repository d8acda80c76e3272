// Sums over rows of the read copy (kernels/ops/attention/vq_attention.h), in integers.
//
// A group has up to kCopyGroup rows. For the columns that share a scale, a row's factor is weight
// times scale. It becomes step times q, where q is from 0 to 32767, rounded to nearest even, and
// step is the group's largest factor / 32767. The sum of q times value is below 32 * 32767 * 127 <
// 2^27 and exact; it is multiplied with step in float32. So a group's sum has the same bits on
// every instruction set. It is off by at most kCopyGroup half steps times 127. Since 127 times a
// row's scale is the row's largest value, this is kCopyGroup / 65534 of max|v| times the largest
// weight. All groups together are off by kVqCopySumError of max|v|, an eighth of the copy's error.
#ifndef TVQ_KERNELS_CPU_VQ_ATTENTION_COPY_SUMS_H_
#define TVQ_KERNELS_CPU_VQ_ATTENTION_COPY_SUMS_H_

#include <algorithm>
#include <cstdint>

#include "kernels/ops/attention/vq_attention.h"

namespace tvq {

inline constexpr int64_t kCopyGroup = 32;
inline constexpr int64_t kLargestFactor = 32767;
// The most columns of a task: as integers, so many sums stay in the L1 cache beside the rows.
inline constexpr int64_t kCopyColumns = 1536;
inline constexpr int64_t kCopyScales = kCopyColumns / kVqScaleColumns;

// How the q of four rows lie, for each scale, in two words of 32 bits:
//
//   kPairs   q0 | q1 << 16, then q2 | q3 << 16
//   kBytes   the upper bytes of q0, q2, q1 and q3, the first one lowest, then the lower ones
enum class FactorForm : uint8_t { kPairs, kBytes };

// Prefetches rows that will be read, in order, a line at a time.
class RowFetch {
 public:
  RowFetch() = default;
  RowFetch(const int8_t* const* rows, int64_t count, int64_t bytes)
      : row_(rows), end_(rows + count), bytes_(bytes) {}

  void Turn(int64_t lines) {
    while (lines > 0 && row_ != end_) {
      const int64_t bytes = std::min(lines * kLineBytes, bytes_ - at_);
      const int8_t* from = *row_ + at_;
      for (int64_t b = 0; b < bytes; b += kLineBytes) __builtin_prefetch(from + b);
      lines -= (bytes + kLineBytes - 1) / kLineBytes;
      at_ += bytes;
      if (at_ < bytes_) continue;
      at_ = 0;
      ++row_;
    }
  }

 private:
  static constexpr int64_t kLineBytes = 64;
  const int8_t* const* row_ = nullptr;
  const int8_t* const* end_ = nullptr;
  int64_t bytes_ = 0;
  int64_t at_ = 0;
};

// A group of rows of one head.
struct CopyGroup {
  const int8_t* row[kCopyGroup];  // at the task's first column
  int64_t rows;                   // a multiple of four; the last ones may repeat a row, with q = 0
  int64_t columns;
  uint32_t factor[kCopyGroup / 2][kCopyScales];
  float step[kCopyScales];
  float* out;       // [columns], added to
  RowFetch* fetch;  // prefetches a line for each that is read
};

using AddCopyGroupFunction = void (*)(const CopyGroup& group);

// By VPDPBUSD, with factors as kBytes, four rows at a time. Only where the device's dot().int8 says
// so, or for the latter dot().int8_256.
void AddCopyGroupDot(const CopyGroup& group);
void AddCopyGroupDot256(const CopyGroup& group);

// How a group is added on an instruction set.
struct CopyGroupKind {
  AddCopyGroupFunction add;
  FactorForm form;
  int64_t rows_ahead;  // how many rows ahead rows are prefetched
};

}  // namespace tvq

#endif  // TVQ_KERNELS_CPU_VQ_ATTENTION_COPY_SUMS_H_
