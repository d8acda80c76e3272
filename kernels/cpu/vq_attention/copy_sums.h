// Sums over rows of the read copy (kernels/ops/attention/vq_attention.h), in integers.
//
// Of a group of up to kCopyGroup rows and of the columns that share a scale, a row's factor is
// weight times scale, and becomes step q: q from 0 to 32767 to nearest even, step the largest
// factor over 32767. The sum of q times value, below 32 * 32767 * 127 < 2^27, is exact; float32
// takes it times step. So a group's sum has the same bits on every instruction set, and is off by
// at most kCopyGroup half steps times 127; as 127 times its scale is a row's largest value, that is
// kCopyGroup / 65534 of max|v| times the largest weight, which is kVqCopySumError of max|v| for all
// groups together, an eighth of what the copy itself is off.
#ifndef TVQ_KERNELS_CPU_VQ_ATTENTION_COPY_SUMS_H_
#define TVQ_KERNELS_CPU_VQ_ATTENTION_COPY_SUMS_H_

#include <algorithm>
#include <cstdint>

#include "kernels/ops/attention/vq_attention.h"

namespace tvq {

inline constexpr int64_t kCopyGroup = 32;
inline constexpr int64_t kLargestFactor = 32767;
// Columns of a task at most: integers of so many sums stay in the first cache beside the rows.
inline constexpr int64_t kCopyColumns = 1536;
inline constexpr int64_t kCopyScales = kCopyColumns / kVqScaleColumns;

// How the q of four rows, for each scale, are two words of 32 bits:
//
//   kPairs   q0 | q1 << 16, then q2 | q3 << 16
//   kBytes   the upper bytes of q0, q2, q1 and q3, the first one lowest, then the lower ones
enum class FactorForm : uint8_t { kPairs, kBytes };

// Fetches rows that will be read, in order, a line at a time.
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
  int64_t rows;                   // a multiple of four, of which the last may repeat one with q = 0
  int64_t columns;
  uint32_t factor[kCopyGroup / 2][kCopyScales];
  float step[kCopyScales];
  float* out;       // [columns], added to
  RowFetch* fetch;  // takes a line for each that is read
};

using AddCopyGroupFunction = void (*)(const CopyGroup& group);

// By VPDPBUSD, of factors as kBytes, four rows after the other. Only where the device's dot().int8
// says so, and dot().int8_256.
void AddCopyGroupDot(const CopyGroup& group);
void AddCopyGroupDot256(const CopyGroup& group);

// How a group is added on an instruction set.
struct CopyGroupKind {
  AddCopyGroupFunction add;
  FactorForm form;
  int64_t rows_ahead;  // are fetched before the group that they are of, or the next one, is there
};

}  // namespace tvq

#endif  // TVQ_KERNELS_CPU_VQ_ATTENTION_COPY_SUMS_H_
