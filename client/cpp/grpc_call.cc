#include "client/cpp/grpc_call.h"

#include <chrono>

#include "absl/strings/cord.h"
#include "absl/strings/numbers.h"

namespace tvq::client {
namespace {

constexpr char kPushback[] = "grpc-retry-pushback-ms";

}  // namespace

absl::Status FromGrpc(const grpc::Status& status, const grpc::ClientContext& context) {
  if (status.ok()) return absl::OkStatus();
  absl::Status result(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
  const auto& trailers = context.GetServerTrailingMetadata();
  if (const auto it = trailers.find(kPushback); it != trailers.end()) {
    result.SetPayload(kPushback, absl::Cord(std::string(it->second.data(), it->second.size())));
  }
  return result;
}

void Apply(const CallOptions& options, const Transport& transport, grpc::ClientContext* context) {
  if (options.timeout != absl::InfiniteDuration()) {
    context->set_deadline(std::chrono::system_clock::now() +
                          absl::ToChronoMicroseconds(options.timeout));
  }
  if (!options.request_id.empty()) context->AddMetadata("x-request-id", options.request_id);
  if (!transport.authorization.empty()) {
    context->AddMetadata("authorization", transport.authorization);
  }
}

std::optional<absl::Duration> RetryAfter(const absl::Status& status) {
  const auto payload = status.GetPayload(kPushback);
  int64_t ms = 0;
  if (!payload || !absl::SimpleAtoi(std::string(*payload), &ms) || ms < 0) return std::nullopt;
  return absl::Milliseconds(ms);
}

}  // namespace tvq::client
