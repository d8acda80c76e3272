#include "server/rpc/wire/session_convert.h"

#include <google/protobuf/duration.pb.h>
#include <google/protobuf/timestamp.pb.h>

#include <cstddef>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/refusal.h"
#include "server/sessions/record/session_limits.h"

namespace tvq {
namespace {

constexpr int64_t kMaxSeconds = 315'576'000'000;  // of google.protobuf.Duration: 10,000 years
constexpr int32_t kMaxNanos = 999'999'999;

absl::StatusOr<Durability> ToDurability(v1::Durability durability, const char* field) {
  switch (durability) {
    case v1::DURABILITY_UNSPECIFIED:
      return Durability::kDefault;
    case v1::DURABILITY_MEMORY:
      return Durability::kMemory;
    case v1::DURABILITY_DISK:
      return Durability::kDisk;
    default:
      return Refused(
          Reason::kValueInvalid, field,
          absl::StrCat("is ", static_cast<int>(durability), ", must be one of the enum's values"));
  }
}

absl::Status CheckBytes(const std::string& value, size_t max, const char* field) {
  if (value.size() <= max) return absl::OkStatus();
  return Refused(Reason::kValueInvalid, field,
                 absl::StrCat("has ", value.size(), " bytes, must have at most ", max));
}

absl::StatusOr<absl::Duration> ToTtl(const google::protobuf::Duration& ttl) {
  if (ttl.seconds() < 0 || ttl.seconds() > kMaxSeconds || ttl.nanos() < 0 ||
      ttl.nanos() > kMaxNanos || (ttl.seconds() == 0 && ttl.nanos() == 0)) {
    return Refused(
        Reason::kValueInvalid, "ttl",
        absl::StrCat("is ", ttl.seconds(), " seconds and ", ttl.nanos(),
                     " nanoseconds, must be positive and at most ", kMaxSeconds, " seconds"));
  }
  return absl::Seconds(ttl.seconds()) + absl::Nanoseconds(ttl.nanos());
}

void ToProto(absl::Time time, google::protobuf::Timestamp* message) {
  const int64_t seconds = absl::ToUnixSeconds(time);
  message->set_seconds(seconds);
  message->set_nanos(
      static_cast<int32_t>(absl::ToInt64Nanoseconds(time - absl::FromUnixSeconds(seconds))));
}

v1::SessionTier ToProto(Tier tier) {
  switch (tier) {
    case Tier::kDevice:
      return v1::SESSION_TIER_DEVICE;
    case Tier::kHost:
      return v1::SESSION_TIER_HOST;
    case Tier::kDurable:
      return v1::SESSION_TIER_DURABLE;
  }
  return v1::SESSION_TIER_UNSPECIFIED;
}

}  // namespace

absl::StatusOr<SessionCall> ToSessionCall(const v1::SessionCall& message, uint64_t request_hash,
                                          const std::string& owner) {
  if (auto status = CheckSessionId(message.session_id(), "session.session_id"); !status.ok()) {
    return status;
  }
  if (message.has_expected_version() && message.expected_version() < 1) {
    return Refused(Reason::kValueInvalid, "session.expected_version",
                   absl::StrCat("is ", message.expected_version(), ", must be at least 1"));
  }
  const auto durability = ToDurability(message.durability(), "session.durability");
  if (!durability.ok()) return durability.status();
  if (auto status = CheckBytes(message.idempotency_key(), kMaxKeyBytes, "session.idempotency_key");
      !status.ok()) {
    return status;
  }
  SessionCall call{.owner = owner,
                   .id = message.session_id(),
                   .durability = *durability,
                   .idempotency_key = message.idempotency_key(),
                   .request_hash = request_hash};
  if (message.has_expected_version()) call.expected_version = message.expected_version();
  return call;
}

absl::StatusOr<CreateOptions> ToCreateOptions(const v1::CreateSessionRequest& message) {
  const auto durability = ToDurability(message.durability(), "durability");
  if (!durability.ok()) return durability.status();
  CreateOptions options{.model = message.model(),
                        .label = message.label(),
                        .durability = *durability,
                        .idempotency_key = message.idempotency_key()};
  if (!message.idempotency_key().empty()) options.request_hash = HashOfCreation(message).value();
  if (message.has_ttl()) {
    const auto ttl = ToTtl(message.ttl());
    if (!ttl.ok()) return ttl.status();
    options.ttl = *ttl;
  }
  if (message.has_keep_transcript()) options.keep_transcript = message.keep_transcript();
  if (message.has_add_special_tokens()) {
    options.add_special_tokens = message.add_special_tokens();
  }
  if (auto status = CheckBytes(message.label(), kMaxLabelBytes, "label"); !status.ok()) {
    return status;
  }
  if (auto status = CheckBytes(message.idempotency_key(), kMaxKeyBytes, "idempotency_key");
      !status.ok()) {
    return status;
  }
  return options;
}

absl::StatusOr<ForkOptions> ToForkOptions(const v1::ForkSessionRequest& message) {
  if (message.count() < 0 || message.count() > kMaxForks) {
    return Refused(
        Reason::kValueInvalid, "count",
        absl::StrCat("is ", message.count(), ", must be in [1, ", kMaxForks, "], or 0 for 1"));
  }
  ForkOptions options{.label = message.label(),
                      .count = message.count() == 0 ? 1 : message.count(),
                      .mark = message.mark()};
  if (message.has_ttl()) {
    const auto ttl = ToTtl(message.ttl());
    if (!ttl.ok()) return ttl.status();
    options.ttl = *ttl;
  }
  if (auto status = CheckBytes(message.label(), kMaxLabelBytes, "label"); !status.ok()) {
    return status;
  }
  if (auto status = CheckBytes(message.mark(), kMaxMarkBytes, "mark"); !status.ok()) return status;
  return options;
}

absl::StatusOr<int64_t> ToPageSize(const v1::ListSessionsRequest& message) {
  if (message.page_size() < 0 || message.page_size() > kMaxPageSize) {
    return Refused(Reason::kValueInvalid, "page_size",
                   absl::StrCat("is ", message.page_size(), ", must be in [1, ", kMaxPageSize,
                                "], or 0 for ", kDefaultPageSize));
  }
  return message.page_size() == 0 ? kDefaultPageSize : message.page_size();
}

absl::Status CheckSessionId(const std::string& id, const char* field) {
  if (!id.empty()) return absl::OkStatus();
  return Refused(Reason::kValueMissing, field, "is empty, must be the id that CreateSession gave");
}

absl::Status CheckMarkName(const std::string& name, const char* field) {
  if (!name.empty()) return CheckBytes(name, kMaxMarkBytes, field);
  return Refused(Reason::kValueMissing, field,
                 absl::StrCat("is empty, must have 1 to ", kMaxMarkBytes, " bytes"));
}

absl::Status CheckChunk(const std::string& chunk) {
  return CheckBytes(chunk, kSnapshotChunkBytes, "chunk");
}

void ToProto(const SessionView& view, v1::Session* message) {
  const SessionRecord& record = view.record;
  message->set_id(record.id);
  message->set_model(record.model);
  message->set_parent_id(record.parent_id);
  message->set_parent_version(record.parent_version);
  message->set_version(record.version);
  message->set_persisted_version(record.persisted_version);
  message->set_position(record.position);
  message->set_bytes(view.bytes);
  message->set_tier(ToProto(view.tier));
  ToProto(record.created, message->mutable_create_time());
  ToProto(record.last_used, message->mutable_last_use_time());
  // What ends after the last representable instant, the year 9999, never ends.
  const absl::Time end = record.last_used + record.ttl;
  if (end < absl::FromUnixSeconds(253'402'300'800)) ToProto(end, message->mutable_expire_time());
  for (const MarkRecord& mark : record.marks) {
    v1::SessionMark* out = message->add_marks();
    out->set_name(mark.name);
    out->set_version(mark.version);
    out->set_position(mark.position);
  }
  message->set_has_transcript(record.has_transcript);
  message->set_label(record.label);
  message->set_add_special_tokens(record.add_special_tokens);
}

v1::SessionPosition PositionOf(const SessionRecord& record) {
  v1::SessionPosition position;
  position.set_session_id(record.id);
  position.set_version(record.version);
  position.set_persisted_version(record.persisted_version);
  position.set_position(record.position);
  return position;
}

}  // namespace tvq
