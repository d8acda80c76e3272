#include "server/rpc/wire/status.h"

#include <google/protobuf/message_lite.h>

#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "base/utf8.h"
#include "tvq/v1/refusal.pb.h"

namespace tvq {
namespace {

const char* Name(Retry retry) {
  switch (retry) {
    case Retry::kNow:
      return "now";
    case Retry::kAfter:
      return "after";
    case Retry::kNever:
      return "never";
  }
  return "";
}

void Add(const char* type, const google::protobuf::MessageLite& detail, v1::StatusDetails* to) {
  auto* const any = to->add_details();
  any->set_type_url(absl::StrCat("type.googleapis.com/google.rpc.", type));
  any->set_value(detail.SerializeAsString());
}

std::string Details(const Refusal& refusal, absl::StatusCode code, const std::string& message) {
  v1::StatusDetails details;
  details.set_code(static_cast<int>(code));
  details.set_message(message);
  v1::ErrorInfo info;
  info.set_reason(std::string(InfoOf(refusal.reason).name));
  info.set_domain("tvq");
  (*info.mutable_metadata())["retry"] = Name(refusal.retry);
  Add("ErrorInfo", info, &details);
  if (!refusal.field.empty()) {
    v1::BadRequest bad;
    auto* const violation = bad.add_field_violations();
    violation->set_field(refusal.field);
    violation->set_description(std::string(WithoutField(message, refusal)));
    Add("BadRequest", bad, &details);
  }
  if (refusal.retry == Retry::kAfter) {
    v1::RetryInfo retry;
    retry.mutable_retry_delay()->set_seconds(refusal.retry_after_ms / 1000);
    retry.mutable_retry_delay()->set_nanos(
        static_cast<int32_t>(refusal.retry_after_ms % 1000 * 1'000'000));
    Add("RetryInfo", retry, &details);
  }
  return details.SerializeAsString();
}

}  // namespace

grpc::Status ToGrpc(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  std::string message(status.message());
  if (message.size() > kMaxStatusMessageBytes) {
    message.resize(Utf8Beginning(message, kMaxStatusMessageBytes - 3).size());
    message += "...";
  }
  return {static_cast<grpc::StatusCode>(status.code()), message,
          Details(RefusalOf(status), status.code(), message)};
}

std::optional<int64_t> RetryPushbackMs(const Refusal& refusal) {
  if (InfoOf(refusal.reason).code != absl::StatusCode::kResourceExhausted) return std::nullopt;
  return refusal.retry == Retry::kNever ? -1 : refusal.retry_after_ms;
}

void AddRetryPushback(const absl::Status& status, grpc::ServerContextBase* context) {
  if (const std::optional<int64_t> ms = RetryPushbackMs(RefusalOf(status))) {
    context->AddTrailingMetadata(kRetryPushbackTrailer, std::to_string(*ms));
  }
}

}  // namespace tvq
