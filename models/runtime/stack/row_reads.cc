#include "models/runtime/stack/row_reads.h"

#include <utility>
#include <vector>

namespace tvq {

void RowReads::Reserve(int64_t rows, WorkingMemory& memory) {
  memory.Keep(&skipped_mass_, rows * heads_);
  memory.Keep(&row_reads_, rows * kv_heads_ * 2);
}

absl::Status RowReads::BeginStep(int64_t rows) {
  absl::Status counted = Count();
  uncounted_rows_ = rows;
  return counted;
}

StateReadTotals RowReads::totals() const {
  // Fails only if the device has failed; the next step reports that error.
  Count().IgnoreError();
  return totals_;
}

absl::Status RowReads::Count() const {
  const int64_t rows = std::exchange(uncounted_rows_, 0);
  if (rows == 0) return absl::OkStatus();
  std::vector<int32_t> row_reads(static_cast<size_t>(rows * kv_heads_ * 2));
  std::vector<float> skipped_mass(static_cast<size_t>(rows * heads_));
  absl::Status s = device_.Receive(row_reads.data(), row_reads_, row_reads.size() * 4);
  if (s.ok()) s = device_.Receive(skipped_mass.data(), skipped_mass_, skipped_mass.size() * 4);
  if (!s.ok()) return s;
  const int32_t* read = row_reads.data();
  for (const Layer& layer : layers_) {
    for (int64_t i = 0; i < rows * layer.kv_heads; ++i, read += 2) {
      totals_.rows += read[0];
      totals_.rows_read += read[1];
      // A row of a session always counts at least its own position; 0 is a row of no session.
      if (read[0] > 0) totals_.queries += layer.heads / layer.kv_heads;
    }
  }
  for (const float mass : skipped_mass) totals_.skipped_mass += mass;
  return absl::OkStatus();
}

}  // namespace tvq
