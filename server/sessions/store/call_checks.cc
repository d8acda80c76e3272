#include "server/sessions/store/call_checks.h"

#include <cstddef>

#include "absl/strings/str_cat.h"
#include "base/refusal.h"
#include "server/sessions/record/session_limits.h"

namespace tvq {
namespace {

absl::Status CheckBytes(const char* field, const std::string& value, size_t max) {
  if (value.size() <= max) return absl::OkStatus();
  return Refused(Reason::kValueInvalid, field,
                 absl::StrCat("has ", value.size(), " bytes, may have ", max));
}

}  // namespace

absl::Status CheckNaming(const std::string& label, const std::optional<absl::Duration>& ttl,
                         const std::string& idempotency_key) {
  if (ttl && *ttl <= absl::ZeroDuration()) {
    return Refused(Reason::kValueInvalid, "ttl",
                   absl::StrCat("is ", absl::FormatDuration(*ttl), ", must be positive"));
  }
  if (auto status = CheckBytes("label", label, kMaxLabelBytes); !status.ok()) return status;
  return CheckBytes("idempotency_key", idempotency_key, kMaxKeyBytes);
}

absl::Status CheckVersion(const SessionCall& call, const SessionRecord& record) {
  if (!call.expected_version || *call.expected_version == record.version) return absl::OkStatus();
  return Refused(Reason::kVersionConflict, "expected_version",
                 absl::StrCat("is ", *call.expected_version, ", session ", record.id,
                              " is at version ", record.version));
}

absl::Status Busy(const std::string& id) {
  return Refused(Reason::kSessionBusy, "session_id",
                 absl::StrCat("another call works on session ", id));
}

absl::Status Overtaken(const std::string& id) {
  return Refused(Reason::kSessionMoved, "session_id",
                 absl::StrCat("another server took over session ", id, "; try again"));
}

absl::Status NotServed(const SessionRecord& record) {
  if (record.owner_lost) return record.damage;
  return Refused(Reason::kModelNotServed, "session_id",
                 absl::StrCat("session ", record.id, " is of model \"", record.model,
                              "\", which is not served here"));
}

}  // namespace tvq
