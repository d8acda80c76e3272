#ifndef TVQ_SERVER_RPC_STALL_ALARM_H_
#define TVQ_SERVER_RPC_STALL_ALARM_H_

#include <grpcpp/alarm.h>

#include <chrono>
#include <functional>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace tvq {

// How a call ends whose client let the server wait for too long.
inline absl::Status Stalled(std::chrono::milliseconds timeout) {
  return absl::DeadlineExceededError(absl::StrCat(
      "the snapshot waited for ", std::chrono::duration_cast<std::chrono::seconds>(timeout).count(),
      " s for the client"));
}

// Says when a client has let the server wait for too long. One thread at a time.
class StallAlarm {
 public:
  // Calls `stalled` once, on a thread of gRPC, if Stop is not called before the time has passed. It
  // may still be called while or shortly after Stop is: it has to look.
  void Start(std::chrono::milliseconds timeout, std::function<void()> stalled) {
    alarm_.emplace();
    alarm_->Set(std::chrono::system_clock::now() + timeout,
                [stalled = std::move(stalled)](bool expired) {
                  if (expired) stalled();
                });
  }
  void Stop() { alarm_.reset(); }

 private:
  std::optional<grpc::Alarm> alarm_;
};

}  // namespace tvq

#endif  // TVQ_SERVER_RPC_STALL_ALARM_H_
