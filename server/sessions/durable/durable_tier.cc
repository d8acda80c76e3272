#include "server/sessions/durable/durable_tier.h"

#include <algorithm>

namespace tvq {

int64_t DurableTier::BudgetWithin(int64_t bytes, int64_t free) {
  const auto part = static_cast<int64_t>(kPartOfFree * static_cast<double>(free));
  return std::max<int64_t>(1, bytes + part);
}

absl::StatusOr<SessionRecord> DurableTier::Claim(const std::string& id, absl::Time /*now*/) {
  return Find(id);
}

absl::StatusOr<DurableTier::Standing> DurableTier::Look(const std::string& id) {
  const auto record = Find(id);
  if (absl::IsNotFound(record.status())) return Standing{};
  if (!record.ok()) return record.status();
  return Standing{.version = record->version};
}

absl::StatusOr<bool> DurableTier::DeleteUnused(const std::string& id, absl::Time since) {
  const auto record = Find(id);
  if (absl::IsNotFound(record.status())) return false;
  if (!record.ok()) return record.status();
  if (record->last_used > since) return false;
  if (auto status = Delete(id); !status.ok()) return status;
  return true;
}

}  // namespace tvq
