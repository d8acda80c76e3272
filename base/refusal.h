// Why a call is not done, as a word for programs. Clients, metrics and logs have it beside the
// message, which is for people and which no program reads.
#ifndef TVQ_BASE_REFUSAL_H_
#define TVQ_BASE_REFUSAL_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace tvq {

// The table in proto/README.md says what each means; a test compares its names with these.
enum class Reason : uint8_t {
  kValueInvalid,
  kValueMissing,
  kValuesConflict,
  kTextInvalid,
  kMessageInvalid,
  kContextTooLong,
  kSnapshotInvalid,
  kIdempotencyKeyTaken,
  kApiKeyUnknown,
  kPermissionMissing,
  kModelUnknown,
  kSessionUnknown,
  kMarkUnknown,
  kSessionBusy,
  kSessionMoved,
  kFirstCallRunning,
  kVersionConflict,
  kReplyNotKept,
  kModelNotServed,
  kSnapshotForeign,
  kDurabilityMissing,
  kTranscriptMissing,
  kMarksFull,
  kCredentialsInvalid,
  kStateTooLarge,
  kMessageTooLarge,
  kSnapshotTooLarge,
  kRequestTooLarge,
  kQueueFull,
  kMemoryFull,
  kSessionsFull,
  kCallsFull,
  kRateExceeded,
  kStopping,
  kUnavailable,
  kStoredDataDamaged,
  kSessionsOff,
  kModelUnfit,
  kMethodUnknown,
  kDeadlinePassed,
  kClientStalled,
  kCancelled,
  kNotFinite,
  kInternal,
};

// Whether the same call may be made again, and when.
enum class Retry : uint8_t { kNow, kAfter, kNever };

struct ReasonInfo {
  Reason reason;
  std::string_view name;  // "VALUE_INVALID"
  absl::StatusCode code;
  Retry retry;
};

// All of them, in the order of the enum.
std::span<const ReasonInfo> Reasons();
const ReasonInfo& InfoOf(Reason reason);
const ReasonInfo* FindReason(std::string_view name);  // null: there is none of the name

// When a call that found no room may be tried again. In about this time a place becomes free under
// load. A client that backs off exponentially may wait longer.
inline constexpr int64_t kRetryAfterMs = 1000;

struct Refusal {
  Reason reason = Reason::kInternal;
  std::string field;  // of the request, by the proto's names: "sampling.top_p", "stop[2]"; or empty
  Retry retry = Retry::kNever;
  int64_t retry_after_ms = 0;  // of kAfter

  bool operator==(const Refusal&) const = default;
};

// "`field`: `what`", or `what` alone, with the code and the retry of the reason.
absl::Status Refused(Reason reason, std::string_view field, std::string_view what);
absl::Status Refused(Reason reason, std::string_view what);

// The same of a refusal that is known, as of RefusalOf, or that says itself when to retry.
absl::Status Refused(const Refusal& refusal, std::string_view what);

// The status with a payload that says why. `message` is whole: it begins with the field, if there
// is one.
absl::Status WithRefusal(const Refusal& refusal, std::string_view message);

// What a status says; nothing of one that says none, as gRPC itself makes them.
std::optional<Refusal> FindRefusal(const absl::Status& status);

// The same, or else what its code stands for. Not for OK.
Refusal RefusalOf(const absl::Status& status);

// The status's, as the standard's view: Abseil's own is another class.
inline std::string_view MessageOf(const absl::Status& status) {
  return {status.message().data(), status.message().size()};
}

// `message` without the field at its beginning.
std::string_view WithoutField(std::string_view message, const Refusal& refusal);

}  // namespace tvq

#endif  // TVQ_BASE_REFUSAL_H_
