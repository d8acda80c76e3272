#include "server/sessions/redis_client.h"

#include <chrono>
#include <cstddef>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"

namespace tvq {
namespace {

// About as many as threads work on sessions at a time; more are made and closed again.
constexpr size_t kMaxIdle = 8;

constexpr std::chrono::seconds kLeaveAlone{1};

}  // namespace

absl::StatusOr<RedisClient::Lent> RedisClient::Borrow() {
  {
    const std::lock_guard lock(mutex_);
    if (std::chrono::steady_clock::now() < leave_alone_until_) {
      return absl::UnavailableError(absl::StrCat("Redis at ", address_.Display(),
                                                 ": it did not answer in time a moment ago"));
    }
    while (!idle_.empty()) {
      std::unique_ptr<RedisConnection> connection = std::move(idle_.back());
      idle_.pop_back();
      if (connection->reusable()) return Lent(this, std::move(connection));
    }
  }
  Lent fresh(this, std::make_unique<RedisConnection>(address_, timeouts_));
  if (absl::Status status = fresh->Connect(); !status.ok()) return status;
  return fresh;
}

void RedisClient::Return(std::unique_ptr<RedisConnection> connection) {
  const std::lock_guard lock(mutex_);
  if (connection->timed_out()) leave_alone_until_ = std::chrono::steady_clock::now() + kLeaveAlone;
  if (connection->reusable() && idle_.size() < kMaxIdle) idle_.push_back(std::move(connection));
}

}  // namespace tvq
