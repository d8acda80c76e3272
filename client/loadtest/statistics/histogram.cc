#include "client/loadtest/statistics/histogram.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace tvq::loadtest {
namespace {

constexpr int kBits = 9;  // 2^9 buckets for each power of two

// A value of b bits is shifted right by s = b - kBits - 1 (0 for small ones) into
// [2^kBits, 2^(kBits+1)); each s begins where the one before ends.
size_t IndexOf(Nanos value) {
  const auto bits = static_cast<uint64_t>(value);
  const int shift = std::max(0, static_cast<int>(std::bit_width(bits)) - kBits - 1);
  return (static_cast<size_t>(shift) << kBits) + (bits >> shift);
}

}  // namespace

void Histogram::Record(Nanos value, int64_t count) {
  if (count <= 0) return;
  value = std::max<Nanos>(value, 0);
  const size_t index = IndexOf(value);
  if (index >= counts_.size()) counts_.resize(index + 1);
  counts_[index] += count;
  min_ = count_ > 0 ? std::min(min_, value) : value;
  max_ = std::max(max_, value);
  count_ += count;
  sum_ += static_cast<double>(value) * static_cast<double>(count);
}

void Histogram::Add(const Histogram& other) {
  if (other.count_ == 0) return;
  counts_.resize(std::max(counts_.size(), other.counts_.size()));
  for (size_t i = 0; i < other.counts_.size(); ++i) counts_[i] += other.counts_[i];
  min_ = count_ > 0 ? std::min(min_, other.min_) : other.min_;
  max_ = std::max(max_, other.max_);
  count_ += other.count_;
  sum_ += other.sum_;
}

Nanos Histogram::Middle(size_t index) const {
  const size_t shift = index < (size_t{2} << kBits) ? 0 : (index >> kBits) - 1;
  const auto low = static_cast<Nanos>((index - (shift << kBits)) << shift);
  return std::clamp(low + ((Nanos{1} << shift) - 1) / 2, min_, max_);
}

Nanos Histogram::Percentile(double quantile) const {
  if (count_ == 0) return 0;
  const auto rank =
      std::clamp<int64_t>(std::ceil(quantile * static_cast<double>(count_)), 1, count_);
  if (rank == count_) return max_;
  int64_t seen = 0;
  for (size_t i = 0; i < counts_.size(); ++i) {
    seen += counts_[i];
    if (seen >= rank) return Middle(i);
  }
  return max_;
}

std::vector<Histogram::Bucket> Histogram::Buckets() const {
  std::vector<Bucket> buckets;
  for (size_t i = 0; i < counts_.size(); ++i) {
    if (counts_[i] > 0) buckets.push_back({Middle(i), counts_[i]});
  }
  return buckets;
}

Histogram Histogram::CorrectedForOmission(Nanos interval) const {
  Histogram corrected = *this;
  for (const Bucket& bucket : Buckets()) {
    for (Nanos value = bucket.value - interval; value >= interval; value -= interval) {
      corrected.Record(value, bucket.count);
    }
  }
  return corrected;
}

}  // namespace tvq::loadtest
