#ifndef TVQ_CLIENT_GATEWAY_HTTP_DEADLINE_H_
#define TVQ_CLIENT_GATEWAY_HTTP_DEADLINE_H_

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <utility>

namespace tvq::gateway {

namespace asio = boost::asio;

// Says when something takes too long. It is moved with every read and write: one timer is set anew
// only when it fires, or when the deadline comes nearer. Used by the loop's thread alone.
class Deadline final : public std::enable_shared_from_this<Deadline> {
  using Clock = std::chrono::steady_clock;

 public:
  // `passed` is called as often as a deadline passes, until the deadline's owner lets go of it.
  Deadline(const asio::any_io_executor& executor, std::function<void()> passed)
      : timer_(executor), passed_(std::move(passed)) {}

  void Set(Clock::duration after) {
    at_ = Clock::now() + after;
    if (at_ < armed_) Arm();
  }
  void Clear() { at_ = Clock::time_point::max(); }
  // It is used no more.
  void Stop() {
    Clear();
    timer_.cancel();
  }

 private:
  void Arm() {
    armed_ = at_;
    timer_.expires_at(armed_);
    timer_.async_wait([weak = weak_from_this()](boost::system::error_code error) {
      const auto self = weak.lock();
      if (!error && self != nullptr) self->Fire();
    });
  }
  void Fire() {
    armed_ = Clock::time_point::max();
    if (at_ == Clock::time_point::max()) return;
    if (at_ > Clock::now()) return Arm();
    Clear();
    passed_();
  }

  asio::steady_timer timer_;
  const std::function<void()> passed_;
  Clock::time_point at_ = Clock::time_point::max();
  Clock::time_point armed_ = Clock::time_point::max();
};

}  // namespace tvq::gateway

#endif  // TVQ_CLIENT_GATEWAY_HTTP_DEADLINE_H_
