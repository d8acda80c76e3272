#include "models/runtime/stack/row_reads.h"

#include <utility>
#include <vector>

namespace tvq {

void RowReads::Reserve(int64_t rows, WorkingMemory& memory) {
  memory.Keep(&skipped_mass_, layers_ * rows * heads_);
  memory.Keep(&row_reads_, layers_ * rows * kv_heads_ * 2);
}

absl::Status RowReads::BeginStep(int64_t rows) {
  absl::Status counted = Count();
  uncounted_rows_ = rows;
  return counted;
}

StateReadTotals RowReads::totals() const {
  // Of a device that has failed nothing more is learnt, and its next step says so.
  Count().IgnoreError();
  return totals_;
}

absl::Status RowReads::Count() const {
  const int64_t queries = std::exchange(uncounted_rows_, 0) * layers_;
  if (queries == 0) return absl::OkStatus();
  std::vector<int32_t> row_reads(static_cast<size_t>(queries * kv_heads_ * 2));
  std::vector<float> skipped_mass(static_cast<size_t>(queries * heads_));
  absl::Status s = device_.Receive(row_reads.data(), row_reads_, row_reads.size() * 4);
  if (s.ok()) s = device_.Receive(skipped_mass.data(), skipped_mass_, skipped_mass.size() * 4);
  if (!s.ok()) return s;
  for (size_t i = 0; i < row_reads.size(); i += 2) {
    totals_.rows += row_reads[i];
    totals_.rows_read += row_reads[i + 1];
    // Somebody's rows are never none: their own position is among them.
    if (row_reads[i] > 0) totals_.queries += heads_ / kv_heads_;
  }
  for (const float mass : skipped_mass) totals_.skipped_mass += mass;
  return absl::OkStatus();
}

}  // namespace tvq
