#ifndef TVQ_SERVER_SESSIONS_RECORD_RECORD_JSON_H_
#define TVQ_SERVER_SESSIONS_RECORD_RECORD_JSON_H_

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "absl/status/statusor.h"
#include "server/sessions/record/session_record.h"

namespace tvq {

// A record as a snapshot's header has it. Times are whole nanoseconds.
nlohmann::json ToJson(const SessionRecord& record);

// Bytes that a mark adds at most to its session's record, written as a snapshot's header has it.
int64_t MostJsonBytes(const MarkRecord& mark);

// INVALID_ARGUMENT, opened by `where`, for what is no record: ids that are not 32 hexadecimal
// digits, versions and positions that no session can have.
absl::StatusOr<SessionRecord> RecordFromJson(const nlohmann::json& object,
                                             const std::string& where);

}  // namespace tvq

#endif  // TVQ_SERVER_SESSIONS_RECORD_RECORD_JSON_H_
