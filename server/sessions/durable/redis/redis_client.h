// The connections of a process to its Redis.
#ifndef TVQ_SERVER_SESSIONS_DURABLE_REDIS_REDIS_CLIENT_H_
#define TVQ_SERVER_SESSIONS_DURABLE_REDIS_REDIS_CLIENT_H_

#include <chrono>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "server/sessions/durable/redis/redis_connection.h"

namespace tvq {

// Lends connections, makes them anew when Redis has closed them, and keeps some for the next use.
// Thread-safe. Must outlive what it lends.
class RedisClient {
 public:
  // A connection until it is destroyed.
  class Lent {
   public:
    Lent(RedisClient* client, std::unique_ptr<RedisConnection> connection)
        : client_(client), connection_(std::move(connection)) {}
    Lent(Lent&&) = default;
    ~Lent() {
      if (connection_ != nullptr) client_->Return(std::move(connection_));
    }
    RedisConnection* operator->() const { return connection_.get(); }

   private:
    RedisClient* client_;
    std::unique_ptr<RedisConnection> connection_;
  };

  RedisClient(const RedisAddress& address, const RedisTimeouts& timeouts)
      : address_(address), timeouts_(timeouts) {}

  // Blocks to connect. Errors as RedisConnection. A Redis that was too slow is left alone for a
  // second; then one caller tries it while the others still hear at once that it is away, so that
  // threads do not pile up behind it.
  absl::StatusOr<Lent> Borrow() { return Borrow(timeouts_.progress); }
  // For what Redis answers at once, or is not there.
  absl::StatusOr<Lent> BorrowForQuery() { return Borrow(timeouts_.query); }

  const RedisAddress& address() const { return address_; }

 private:
  absl::StatusOr<Lent> Borrow(absl::Duration progress);
  // Whether Redis answers in time again.
  absl::Status Try();
  void Return(std::unique_ptr<RedisConnection> connection);

  const RedisAddress address_;
  const RedisTimeouts timeouts_;
  Mutex mutex_;
  std::vector<std::unique_ptr<RedisConnection>> idle_ ABSL_GUARDED_BY(mutex_);
  bool away_ ABSL_GUARDED_BY(mutex_) = false;   // it was too slow
  bool tried_ ABSL_GUARDED_BY(mutex_) = false;  // by another call, just now
  std::chrono::steady_clock::time_point leave_alone_until_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tvq

#endif  // TVQ_SERVER_SESSIONS_DURABLE_REDIS_REDIS_CLIENT_H_
