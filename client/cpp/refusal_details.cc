#include "client/cpp/refusal_details.h"

#include <string>

#include "absl/strings/match.h"
#include "tvq/v1/refusal.pb.h"

namespace tvq::client {
namespace {

// The one of this type that `details` has.
template <typename Detail>
std::optional<Detail> Find(const v1::StatusDetails& details, const char* type) {
  Detail detail;
  for (const auto& any : details.details()) {
    if (absl::EndsWith(any.type_url(), type) && detail.ParseFromString(any.value())) return detail;
  }
  return std::nullopt;
}

}  // namespace

std::optional<Refusal> RefusalIn(const grpc::Status& status) {
  v1::StatusDetails details;
  if (status.error_details().empty() || !details.ParseFromString(status.error_details())) {
    return std::nullopt;
  }
  const auto info = Find<v1::ErrorInfo>(details, "/google.rpc.ErrorInfo");
  if (!info || info->domain() != "tvq") return std::nullopt;
  const ReasonInfo* const reason = FindReason(info->reason());
  if (reason == nullptr || static_cast<int>(reason->code) != status.error_code()) {
    return std::nullopt;
  }
  Refusal refusal{.reason = reason->reason};
  const auto retry = info->metadata().find("retry");
  if (retry != info->metadata().end() && retry->second == "now") refusal.retry = Retry::kNow;
  if (const auto wait = Find<v1::RetryInfo>(details, "/google.rpc.RetryInfo")) {
    refusal.retry = Retry::kAfter;
    refusal.retry_after_ms =
        wait->retry_delay().seconds() * 1000 + wait->retry_delay().nanos() / 1'000'000;
  }
  const auto bad = Find<v1::BadRequest>(details, "/google.rpc.BadRequest");
  if (bad && !bad->field_violations().empty()) refusal.field = bad->field_violations(0).field();
  return refusal;
}

}  // namespace tvq::client
