#ifndef TVQ_CLIENT_GATEWAY_HTTP_CONNECTION_H_
#define TVQ_CLIENT_GATEWAY_HTTP_CONNECTION_H_

#include <boost/asio/awaitable.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "client/gateway/http/deadline.h"
#include "client/gateway/http/exchange.h"
#include "client/gateway/http/incoming.h"
#include "client/gateway/http/limits.h"
#include "client/gateway/http/peers.h"
#include "client/gateway/http/request_parser.h"
#include "client/gateway/http/transport.h"

namespace tvq::gateway {

// What is told of a request when its answer has been sent, or could not be.
struct FinishedRequest {
  const Request& request;
  const std::string& request_id;
  std::string_view route;
  int status = 0;  // 499: the client was gone first
  std::chrono::steady_clock::duration took;
  uint64_t bytes_sent = 0;
};

// What a connection asks of the server around it.
struct ConnectionHooks {
  Handler handler;
  // The answer to what cannot become a request: status, and what is wrong.
  std::function<Response(int status, std::string_view message)> error;
  std::function<void(const FinishedRequest&)> finished;
};

// One connection: its requests in order, each answered before the next is read. All on the loop.
class Connection final : public Exchange, public std::enable_shared_from_this<Connection> {
  using Clock = std::chrono::steady_clock;

 public:
  // Limits and hooks outlive the connection, and so does the budget.
  Connection(std::unique_ptr<Transport> transport, const asio::any_io_executor& executor,
             const HttpLimits& limits, const ConnectionHooks& hooks, BodyBudget& budget,
             std::shared_ptr<Peer> peer);
  ~Connection() override;
  Connection(const Connection&) = delete;

  // Serves until the connection ends.
  asio::awaitable<void> Run();
  // After the answer that is under way, if there is one.
  void FinishSoon();
  // At once.
  void EndNow();
  // The same, but a request without an answer gets one first: 503, or the answer that its handler
  // has ready. This needs a client that takes it, and a handler that returns. After a while the
  // caller ends the rest with EndNow.
  void StopNow();
  // Since when it has waited for a request's first byte, if it does.
  std::optional<Clock::time_point> unused_since() const {
    return idle_ && !gone_ ? std::optional(idle_since_) : std::nullopt;
  }

  const Request& request() const override { return request_; }
  const std::string& request_id() const override { return request_id_; }
  Clock::time_point started() const override { return started_; }
  asio::any_io_executor executor() const override { return executor_; }
  const std::shared_ptr<Peer>& peer() const override { return peer_; }
  void set_route(std::string_view route) override { route_ = route; }
  void AddHeader(Header header) override { extra_headers_.push_back(std::move(header)); }
  std::optional<uint64_t> content_length() const override { return parser_->content_length(); }
  asio::awaitable<absl::StatusOr<std::string>> ReadPiece(size_t size) override;
  void BodyDone() override {
    Give(budgeted_);
    budgeted_ = 0;
  }
  bool Hold(size_t bytes) override;
  bool HoldInstead(size_t bytes) override;
  std::string MemoryFull() const override { return budget_.Full(*peer_->buffered()); }
  void OnHangUp(absl::AnyInvocable<void()> cancel) override;
  bool gone() const override { return gone_; }
  asio::awaitable<void> Respond(Response response) override;
  asio::awaitable<bool> Begin(Response head, std::optional<uint64_t> length) override;
  asio::awaitable<bool> Write(std::string_view piece) override;
  asio::awaitable<void> End() override;
  void Abort() override;
  bool begun() const override { return status_ != 0; }

 private:
  asio::awaitable<bool> ReadHeader();
  asio::awaitable<void> Serve();
  asio::awaitable<void> Refuse(int status, std::string_view message);
  asio::awaitable<absl::StatusOr<std::string>> TakePiece(size_t size);
  asio::awaitable<bool> SkipBody();
  asio::awaitable<void> Linger();

  size_t taken() const { return budgeted_ + held_ + held_header_; }
  // Before taken() is more.
  bool Take(size_t bytes) { return budget_.Take(bytes, taken(), peer_->buffered()); }
  // Before it is less.
  void Give(size_t bytes) { budget_.Give(bytes, taken(), peer_->buffered()); }
  bool HoldHeader(size_t bytes);
  asio::awaitable<bool> Send(std::string_view bytes);
  // What the kernel takes without a wait, from the front of `bytes`.
  void SendNow(std::string_view* bytes);
  std::string Head(const Response& response, std::optional<uint64_t> length);
  void HangUp();

  const std::shared_ptr<Transport> transport_;
  const std::shared_ptr<Incoming> incoming_;
  const HttpLimits& limits_;
  const ConnectionHooks& hooks_;
  BodyBudget& budget_;
  const std::shared_ptr<Peer> peer_;
  const asio::any_io_executor executor_;
  const std::shared_ptr<Deadline> deadline_;  // of what is under way, which it ends
  bool timed_out_ = false;

  bool gone_ = false;
  bool stopping_ = false;
  bool stopped_ = false;  // StopNow cancelled the request at hand
  bool serving_ = false;
  bool idle_ = false;  // between requests
  Clock::time_point idle_since_;
  bool lingers_ = false;
  absl::AnyInvocable<void()> on_hang_up_;

  // Of the request at hand.
  std::optional<RequestParser> parser_;
  Request request_;
  std::string request_id_;
  std::string_view route_;
  std::vector<Header> extra_headers_;
  Clock::time_point started_;
  size_t body_bytes_ = 0;   // that were read
  size_t budgeted_ = 0;     // bytes of the budget: of the body
  size_t held_ = 0;         // of the answer
  size_t held_header_ = 0;  // and of a long header
  bool continue_sent_ = false;
  int status_ = 0;  // of the answer, once it began
  bool chunked_ = false;
  bool keep_alive_ = false;
  bool ended_ = false;
  uint64_t bytes_sent_ = 0;
  std::string chunk_;  // kept from one piece of an answer to the next
};

}  // namespace tvq::gateway

#endif  // TVQ_CLIENT_GATEWAY_HTTP_CONNECTION_H_
