#include "server/sessions/durable/redis/redis_client.h"

#include <chrono>
#include <cstddef>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"

namespace tvq {
namespace {

// About as many as threads work on sessions at a time; more are made and closed again.
constexpr size_t kMaxIdle = 8;

using SteadyClock = std::chrono::steady_clock;
constexpr std::chrono::seconds kLeaveAlone{1};

}  // namespace

absl::Status RedisClient::Try() {
  {
    const MutexLock lock(&mutex_);
    if (!away_) return absl::OkStatus();
    if (tried_ || SteadyClock::now() < leave_alone_until_) {
      return absl::UnavailableError(absl::StrCat("Redis at ", address_.Display(),
                                                 ": it did not answer in time a moment ago"));
    }
    tried_ = true;
  }
  RedisConnection connection(address_, timeouts_);
  absl::Status status = connection.Connect();
  if (status.ok()) status = connection.Call({"PING"}).status();
  const MutexLock lock(&mutex_);
  tried_ = false;
  away_ = connection.timed_out();
  leave_alone_until_ = SteadyClock::now() + kLeaveAlone;
  return status;
}

absl::StatusOr<RedisClient::Lent> RedisClient::Borrow(absl::Duration progress) {
  if (absl::Status status = Try(); !status.ok()) return status;
  std::unique_ptr<RedisConnection> connection;
  {
    const MutexLock lock(&mutex_);
    while (connection == nullptr && !idle_.empty()) {
      if (idle_.back()->reusable()) connection = std::move(idle_.back());
      idle_.pop_back();
    }
  }
  const bool fresh = connection == nullptr;
  if (fresh) connection = std::make_unique<RedisConnection>(address_, timeouts_);
  Lent lent(this, std::move(connection));
  if (fresh) {
    if (absl::Status status = lent->Connect(); !status.ok()) return status;
  }
  if (absl::Status status = lent->SetPatience(progress); !status.ok()) return status;
  return lent;
}

void RedisClient::Return(std::unique_ptr<RedisConnection> connection) {
  const MutexLock lock(&mutex_);
  if (connection->timed_out()) {
    away_ = true;
    leave_alone_until_ = SteadyClock::now() + kLeaveAlone;
  }
  if (connection->reusable() && idle_.size() < kMaxIdle) idle_.push_back(std::move(connection));
}

}  // namespace tvq
