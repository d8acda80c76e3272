#include "base/refusal.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "absl/strings/cord.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace tvq {
namespace {

using absl::StatusCode;

constexpr char kPayload[] = "tvq/refusal";

constexpr ReasonInfo kReasons[] = {
    {Reason::kValueInvalid, "VALUE_INVALID", StatusCode::kInvalidArgument, Retry::kNever},
    {Reason::kValueMissing, "VALUE_MISSING", StatusCode::kInvalidArgument, Retry::kNever},
    {Reason::kValuesConflict, "VALUES_CONFLICT", StatusCode::kInvalidArgument, Retry::kNever},
    {Reason::kTextInvalid, "TEXT_INVALID", StatusCode::kInvalidArgument, Retry::kNever},
    {Reason::kMessageInvalid, "MESSAGE_INVALID", StatusCode::kInvalidArgument, Retry::kNever},
    {Reason::kContextTooLong, "CONTEXT_TOO_LONG", StatusCode::kInvalidArgument, Retry::kNever},
    {Reason::kSnapshotInvalid, "SNAPSHOT_INVALID", StatusCode::kInvalidArgument, Retry::kNever},
    {Reason::kIdempotencyKeyTaken, "IDEMPOTENCY_KEY_TAKEN", StatusCode::kInvalidArgument,
     Retry::kNever},
    {Reason::kApiKeyUnknown, "API_KEY_UNKNOWN", StatusCode::kUnauthenticated, Retry::kNever},
    {Reason::kPermissionMissing, "PERMISSION_MISSING", StatusCode::kPermissionDenied,
     Retry::kNever},
    {Reason::kModelUnknown, "MODEL_UNKNOWN", StatusCode::kNotFound, Retry::kNever},
    {Reason::kSessionUnknown, "SESSION_UNKNOWN", StatusCode::kNotFound, Retry::kNever},
    {Reason::kMarkUnknown, "MARK_UNKNOWN", StatusCode::kNotFound, Retry::kNever},
    {Reason::kSessionBusy, "SESSION_BUSY", StatusCode::kAborted, Retry::kAfter},
    {Reason::kSessionMoved, "SESSION_MOVED", StatusCode::kAborted, Retry::kNow},
    {Reason::kFirstCallRunning, "FIRST_CALL_RUNNING", StatusCode::kAborted, Retry::kAfter},
    {Reason::kVersionConflict, "VERSION_CONFLICT", StatusCode::kAborted, Retry::kNever},
    {Reason::kReplyNotKept, "REPLY_NOT_KEPT", StatusCode::kFailedPrecondition, Retry::kNever},
    {Reason::kModelNotServed, "MODEL_NOT_SERVED", StatusCode::kFailedPrecondition, Retry::kNever},
    {Reason::kSnapshotForeign, "SNAPSHOT_FOREIGN", StatusCode::kFailedPrecondition, Retry::kNever},
    {Reason::kDurabilityMissing, "DURABILITY_MISSING", StatusCode::kFailedPrecondition,
     Retry::kNever},
    {Reason::kTranscriptMissing, "TRANSCRIPT_MISSING", StatusCode::kFailedPrecondition,
     Retry::kNever},
    {Reason::kMarksFull, "MARKS_FULL", StatusCode::kFailedPrecondition, Retry::kNever},
    {Reason::kCredentialsInvalid, "CREDENTIALS_INVALID", StatusCode::kFailedPrecondition,
     Retry::kNever},
    {Reason::kStateTooLarge, "STATE_TOO_LARGE", StatusCode::kFailedPrecondition, Retry::kNever},
    {Reason::kMessageTooLarge, "MESSAGE_TOO_LARGE", StatusCode::kResourceExhausted, Retry::kNever},
    {Reason::kSnapshotTooLarge, "SNAPSHOT_TOO_LARGE", StatusCode::kResourceExhausted,
     Retry::kNever},
    {Reason::kRequestTooLarge, "REQUEST_TOO_LARGE", StatusCode::kResourceExhausted, Retry::kNever},
    {Reason::kQueueFull, "QUEUE_FULL", StatusCode::kResourceExhausted, Retry::kAfter},
    {Reason::kMemoryFull, "MEMORY_FULL", StatusCode::kResourceExhausted, Retry::kAfter},
    {Reason::kSessionsFull, "SESSIONS_FULL", StatusCode::kResourceExhausted, Retry::kAfter},
    {Reason::kCallsFull, "CALLS_FULL", StatusCode::kResourceExhausted, Retry::kAfter},
    {Reason::kRateExceeded, "RATE_EXCEEDED", StatusCode::kResourceExhausted, Retry::kAfter},
    {Reason::kStopping, "STOPPING", StatusCode::kUnavailable, Retry::kAfter},
    {Reason::kUnavailable, "UNAVAILABLE", StatusCode::kUnavailable, Retry::kAfter},
    {Reason::kStoredDataDamaged, "STORED_DATA_DAMAGED", StatusCode::kDataLoss, Retry::kNever},
    {Reason::kSessionsOff, "SESSIONS_OFF", StatusCode::kUnimplemented, Retry::kNever},
    {Reason::kModelUnfit, "MODEL_UNFIT", StatusCode::kUnimplemented, Retry::kNever},
    {Reason::kMethodUnknown, "METHOD_UNKNOWN", StatusCode::kUnimplemented, Retry::kNever},
    {Reason::kDeadlinePassed, "DEADLINE_PASSED", StatusCode::kDeadlineExceeded, Retry::kNow},
    {Reason::kClientStalled, "CLIENT_STALLED", StatusCode::kDeadlineExceeded, Retry::kNow},
    {Reason::kCancelled, "CANCELLED", StatusCode::kCancelled, Retry::kNow},
    {Reason::kNotFinite, "NOT_FINITE", StatusCode::kInternal, Retry::kNever},
    {Reason::kInternal, "INTERNAL", StatusCode::kInternal, Retry::kNever},
};

constexpr bool InOrder() {
  for (size_t i = 0; i < std::size(kReasons); ++i) {
    if (kReasons[i].reason != static_cast<Reason>(i)) return false;
  }
  return std::size(kReasons) == static_cast<size_t>(Reason::kInternal) + 1;
}
static_assert(InOrder(), "a row for each reason, in the order of the enum");

Reason ReasonOf(StatusCode code) {
  switch (code) {
    case StatusCode::kInvalidArgument:
    case StatusCode::kOutOfRange:
      return Reason::kValueInvalid;
    case StatusCode::kUnauthenticated:
      return Reason::kApiKeyUnknown;
    case StatusCode::kPermissionDenied:
      return Reason::kPermissionMissing;
    case StatusCode::kNotFound:
      return Reason::kSessionUnknown;
    case StatusCode::kAborted:
    case StatusCode::kAlreadyExists:
      return Reason::kVersionConflict;
    case StatusCode::kFailedPrecondition:
      return Reason::kModelNotServed;
    case StatusCode::kResourceExhausted:
      return Reason::kMemoryFull;
    case StatusCode::kUnavailable:
      return Reason::kUnavailable;
    case StatusCode::kDataLoss:
      return Reason::kStoredDataDamaged;
    case StatusCode::kUnimplemented:
      return Reason::kMethodUnknown;
    case StatusCode::kDeadlineExceeded:
      return Reason::kDeadlinePassed;
    case StatusCode::kCancelled:
      return Reason::kCancelled;
    default:
      return Reason::kInternal;
  }
}

Refusal Usual(Reason reason, std::string_view field) {
  const Retry retry = InfoOf(reason).retry;
  return {.reason = reason,
          .field = std::string(field),
          .retry = retry,
          .retry_after_ms = retry == Retry::kAfter ? kRetryAfterMs : 0};
}

}  // namespace

std::span<const ReasonInfo> Reasons() { return kReasons; }

const ReasonInfo& InfoOf(Reason reason) { return kReasons[static_cast<size_t>(reason)]; }

const ReasonInfo* FindReason(std::string_view name) {
  const auto* const found = std::ranges::find(kReasons, name, &ReasonInfo::name);
  return found == std::end(kReasons) ? nullptr : found;
}

absl::Status Refused(Reason reason, std::string_view field, std::string_view what) {
  return Refused(Usual(reason, field), what);
}

absl::Status Refused(Reason reason, std::string_view what) {
  return Refused(Usual(reason, ""), what);
}

absl::Status Refused(const Refusal& refusal, std::string_view what) {
  return WithRefusal(refusal, refusal.field.empty()
                                  ? std::string(what)
                                  : absl::StrCat(refusal.field, ": ", std::string(what)));
}

absl::Status WithRefusal(const Refusal& refusal, std::string_view message) {
  const ReasonInfo& info = InfoOf(refusal.reason);
  absl::Status status(info.code, absl::string_view(message.data(), message.size()));
  const std::string payload =
      absl::StrCat(static_cast<int>(refusal.reason), " ", static_cast<int>(refusal.retry), " ",
                   refusal.retry_after_ms, " ", refusal.field);
  // Not of the string itself: clang and g++ have different names for that constructor.
  status.SetPayload(kPayload, absl::Cord(absl::string_view(payload)));
  return status;
}

std::optional<Refusal> FindRefusal(const absl::Status& status) {
  const auto payload = status.GetPayload(kPayload);
  if (!payload) return std::nullopt;
  const std::string text(*payload);
  const std::vector<std::string> parts = absl::StrSplit(text, absl::MaxSplits(' ', 3));
  int reason = 0, retry = 0;
  Refusal refusal;
  (void)absl::SimpleAtoi(parts[0], &reason);
  (void)absl::SimpleAtoi(parts[1], &retry);
  (void)absl::SimpleAtoi(parts[2], &refusal.retry_after_ms);
  refusal.reason = static_cast<Reason>(reason);
  refusal.retry = static_cast<Retry>(retry);
  refusal.field = parts[3];
  return refusal;
}

Refusal RefusalOf(const absl::Status& status) {
  const std::optional<Refusal> found = FindRefusal(status);
  return found ? *found : Usual(ReasonOf(status.code()), "");
}

std::string_view WithoutField(std::string_view message, const Refusal& refusal) {
  const std::string begin = absl::StrCat(refusal.field, ": ");
  if (!refusal.field.empty() && message.starts_with(begin)) message.remove_prefix(begin.size());
  return message;
}

}  // namespace tvq
