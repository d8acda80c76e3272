#include "server/rpc/services/drain_convert.h"

#include <chrono>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "base/refusal.h"

namespace tvq {
namespace {

// The longest time that --shutdown-timeout takes, too.
constexpr int64_t kMaxTimeoutSeconds = 86'400;

}  // namespace

absl::StatusOr<DrainOrder> ToDrainOrder(const v1::DrainRequest& message) {
  if (!message.peer().empty()) {
    return Refused(
        Reason::kValueInvalid, "peer",
        "must be empty, a server sends its sessions to no other; --redis is for shared ones");
  }
  DrainOrder order;
  if (!message.has_timeout()) return order;
  const int64_t seconds = message.timeout().seconds();
  const int32_t nanos = message.timeout().nanos();
  if (seconds < 0 || seconds > kMaxTimeoutSeconds || nanos < 0 || nanos > 999'999'999) {
    return Refused(Reason::kValueInvalid, "timeout",
                   absl::StrCat("must be between 0 and ", kMaxTimeoutSeconds, " seconds"));
  }
  order.timeout = std::chrono::seconds(seconds) + std::chrono::nanoseconds(nanos);
  return order;
}

}  // namespace tvq
