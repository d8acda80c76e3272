#include "server/rpc/wire/status.h"

#include <string>

#include "base/utf8.h"

namespace tvq {

grpc::Status ToGrpc(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  std::string message(status.message());
  if (message.size() > kMaxStatusMessageBytes) {
    message.resize(Utf8Beginning(message, kMaxStatusMessageBytes - 3).size());
    message += "...";
  }
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()), message);
}

std::optional<int64_t> RetryPushbackMs(const absl::Status& status, bool fits_idle_server) {
  if (status.code() != absl::StatusCode::kResourceExhausted) return std::nullopt;
  return fits_idle_server ? kRetryPushbackMs : -1;
}

void AddRetryPushback(const absl::Status& status, bool fits_idle_server,
                      grpc::ServerContextBase* context) {
  if (const std::optional<int64_t> ms = RetryPushbackMs(status, fits_idle_server)) {
    context->AddTrailingMetadata(kRetryPushbackTrailer, std::to_string(*ms));
  }
}

}  // namespace tvq
