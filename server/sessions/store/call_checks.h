// What a call is refused for, whichever part of the store it comes to.
#ifndef TVQ_SERVER_SESSIONS_STORE_CALL_CHECKS_H_
#define TVQ_SERVER_SESSIONS_STORE_CALL_CHECKS_H_

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "server/sessions/record/session_record.h"
#include "server/sessions/session_store.h"

namespace tvq {

// INVALID_ARGUMENT for a label, time-to-live or idempotency key that no call can have.
absl::Status CheckNaming(const std::string& label, const std::optional<absl::Duration>& ttl,
                         const std::string& idempotency_key);
// ABORTED for a session at another version than the call expects.
absl::Status CheckVersion(const SessionCall& call, const SessionRecord& record);

// Of a session that another call works on.
absl::Status Busy(const std::string& id);
// Of a session that another server has claimed.
absl::Status Overtaken(const std::string& id);
// Of a session whose model is not served here, or whose record is damaged.
absl::Status NotServed(const SessionRecord& record);

}  // namespace tvq

#endif  // TVQ_SERVER_SESSIONS_STORE_CALL_CHECKS_H_
