#ifndef TVQ_SERVER_RPC_LIMITS_STALL_GUARD_H_
#define TVQ_SERVER_RPC_LIMITS_STALL_GUARD_H_

#include <grpcpp/alarm.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/refusal.h"
#include "server/rpc/wire/grpc_time.h"

namespace tvq {

// How a call ends whose client let the server wait for too long.
inline absl::Status Stalled(std::chrono::milliseconds timeout) {
  return Refused(Reason::kClientStalled,
                 absl::StrCat("the snapshot waited for ",
                              std::chrono::duration_cast<std::chrono::seconds>(timeout).count(),
                              " s for the client"));
}

// Watches operations, one after the other, that wait for a client. Arm and Disarm: one thread at a
// time.
class StallGuard {
 public:
  // Before the operation is started. Unless Disarm comes first, calls `stalled` when the time has
  // passed, on a thread of gRPC.
  void Arm(std::chrono::milliseconds timeout, std::function<void()> stalled) {
    began_ = std::chrono::steady_clock::now();
    const int64_t operation = ++operations_;
    *armed_ = operation;
    alarm_.emplace();
    alarm_->Set(ToGrpcTime(std::chrono::steady_clock::now() + timeout),
                [armed = armed_, operation, stalled = std::move(stalled)](bool) {
                  int64_t expected = operation;
                  if (armed->compare_exchange_strong(expected, 0)) stalled();
                });
  }

  // When the operation is done. False: `stalled` was called, or is being called now.
  bool Disarm() {
    const bool in_time = armed_->exchange(0) != 0;
    took_ = std::chrono::steady_clock::now() - began_;
    alarm_.reset();
    return in_time;
  }

  // How long the last operation waited.
  std::chrono::steady_clock::duration took() const { return took_; }

 private:
  const std::shared_ptr<std::atomic<int64_t>> armed_ = std::make_shared<std::atomic<int64_t>>(0);
  int64_t operations_ = 0;
  std::chrono::steady_clock::time_point began_;
  std::chrono::steady_clock::duration took_{};
  std::optional<grpc::Alarm> alarm_;
};

}  // namespace tvq

#endif  // TVQ_SERVER_RPC_LIMITS_STALL_GUARD_H_
