#include "server/rpc/calls/call_context.h"

#include <algorithm>
#include <cstdint>
#include <random>
#include <string_view>

#include "absl/strings/str_format.h"
#include "base/refusal.h"

namespace tvq {
namespace {

bool IsRequestId(std::string_view id) {
  return !id.empty() && id.size() <= 128 &&
         std::all_of(id.begin(), id.end(), [](char c) { return c > ' ' && c <= '~'; });
}

}  // namespace

absl::Status NoSessions() {
  return Refused(Reason::kSessionsOff, "session",
                 "this server keeps no sessions; send the whole prompt and leave the field unset");
}

absl::Status CheckNotDraining(const CallContext& context) {
  if (!*context.draining) return absl::OkStatus();
  return Refused(Reason::kStopping, "the server is stopping");
}

std::string RequestId(const grpc::ServerContextBase& context) {
  const auto& metadata = context.client_metadata();
  if (const auto it = metadata.find("x-request-id"); it != metadata.end()) {
    const std::string_view id(it->second.data(), it->second.size());
    if (IsRequestId(id)) return std::string(id);
  }
  thread_local std::mt19937_64 random{std::random_device{}()};
  return absl::StrFormat("%016x", static_cast<uint64_t>(random()));
}

}  // namespace tvq
