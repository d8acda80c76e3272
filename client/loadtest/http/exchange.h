#ifndef TVQ_CLIENT_LOADTEST_HTTP_EXCHANGE_H_
#define TVQ_CLIENT_LOADTEST_HTTP_EXCHANGE_H_

#include <array>
#include <boost/beast/http.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "client/loadtest/http/connection_pool.h"

namespace tvq::loadtest {

// How a response began.
struct ResponseHead {
  unsigned status = 0;
  std::string retry_after, retry_after_ms;  // headers
};

// One request and its response. One thread; keeps itself alive until the end.
template <typename Stream>
class Exchange : public std::enable_shared_from_this<Exchange<Stream>> {
 public:
  using Request = boost::beast::http::request<boost::beast::http::string_body>;

  // What is told of it.
  struct Events {
    std::function<void(const ResponseHead&)> on_head;
    std::function<void(std::string_view)> on_body;
    // Once. Without an error the response is complete.
    std::function<void(const std::string& error)> on_end;
    // If set: called between reads, which go on when `resume` is called.
    std::function<void(std::function<void()> resume)> pause;
  };

  Exchange(ConnectionPool<Stream>* pool, Request request, Events events)
      : pool_(*pool), request_(std::move(request)), events_(std::move(events)) {}

  void Start() {
    connection_ = pool_.TakeIdle();
    if (connection_) return Write();
    Connect();
  }

  // Whether the request went out again, on a new connection.
  bool reconnected() const { return reconnected_; }

  void Cancel() {
    if (ended_ || std::exchange(cancelled_, true)) return;
    Close();
    boost::asio::post(connection_->stream.get_executor(),
                      [self = this->shared_from_this()] { self->Fail("cancelled"); });
  }

 private:
  using Clock = std::chrono::steady_clock;
  using ErrorCode = boost::system::error_code;
  using Parser = boost::beast::http::response_parser<boost::beast::http::buffer_body>;

  // Reads of a client that pauses between them are small, or the socket's buffers would hide it.
  static constexpr size_t kSlowRead = 256;
  static constexpr int kSlowReceiveBuffer = 4096;

  // A handler of an operation: `next` when it went well, otherwise the end.
  template <typename Next>
  auto Then(const char* what, Next next) {
    return [self = this->shared_from_this(), what, next](ErrorCode error, auto&&...) {
      if (self->ended_) return;
      if (error) return self->OnError(what, error);
      (*self.*next)();
    };
  }

  void Connect() {
    connection_ = pool_.Make();
    pool_.Connect(*connection_, Then("connecting", &Exchange::Write));
  }

  void Write() {
    if (events_.pause) {
      ErrorCode ignored;
      connection_->socket().set_option(
          boost::asio::socket_base::receive_buffer_size(kSlowReceiveBuffer), ignored);
    }
    begin_ = Clock::now();
    boost::beast::http::async_write(connection_->stream, request_,
                                    Then("sending the request", &Exchange::ReadHead));
  }

  void ReadHead() {
    parser_.emplace();
    parser_->body_limit(boost::none);
    boost::beast::http::async_read_header(connection_->stream, connection_->buffer, *parser_,
                                          Then("reading the response's head", &Exchange::TakeHead));
  }

  void TakeHead() {
    connection_->used = true;
    const auto& message = parser_->get();
    const auto header = [&](const char* name) {
      const auto value = message[name];
      return std::string(value.data(), value.size());
    };
    events_.on_head({message.result_int(), header("retry-after"), header("retry-after-ms")});
    ReadBody();
  }

  void ReadBody() {
    if (ended_) return;
    if (parser_->is_done()) return End();
    auto& body = parser_->get().body();
    body.data = piece_.data();
    body.size = piece_.size();
    body.more = true;
    const auto on_read = [self = this->shared_from_this()](ErrorCode error, size_t) {
      self->TakeBody(error);
    };
    if (!events_.pause) {
      return boost::beast::http::async_read_some(connection_->stream, connection_->buffer, *parser_,
                                                 on_read);
    }
    events_.pause([this, on_read] {
      if (ended_) return;
      connection_->buffer.max_size(connection_->buffer.size() + kSlowRead);
      boost::beast::http::async_read_some(connection_->stream, connection_->buffer, *parser_,
                                          on_read);
    });
  }

  void TakeBody(ErrorCode error) {
    if (ended_) return;
    if (error == boost::beast::http::error::need_buffer) error = {};
    const size_t size = piece_.size() - parser_->get().body().size;
    if (size > 0) events_.on_body({piece_.data(), size});
    if (ended_) return;
    if (error) return OnError("reading the response", error);
    ReadBody();
  }

  // A server may close an idle connection just when it is used again: no failure. Then it has
  // not taken the request, or ends at once; a connection that ends later was lost.
  bool Stale(ErrorCode error) const {
    if (!connection_->used || cancelled_) return false;
    if (!parser_) return true;  // the request was still on its way
    namespace asio = boost::asio;
    const bool closed = error == boost::beast::http::error::end_of_stream ||
                        error == asio::error::connection_reset ||
                        error == asio::error::broken_pipe ||
                        error == asio::ssl::error::stream_truncated;
    return closed && !parser_->got_some() && Clock::now() - begin_ < pool_.stale_within();
  }

  void OnError(const char* what, ErrorCode error) {
    if (Stale(error)) {
      reconnected_ = true;
      parser_.reset();
      return Connect();
    }
    Fail(std::string(what) + ": " + error.message());
  }

  void Close() {
    ErrorCode ignored;
    connection_->socket().close(ignored);
  }

  void End() {
    ended_ = true;
    if (parser_->keep_alive() && !cancelled_ && !events_.pause) {
      pool_.Return(std::move(connection_));
    }
    events_.on_end("");
  }

  void Fail(const std::string& error) {
    if (std::exchange(ended_, true)) return;
    Close();
    events_.on_end(error);
  }

  ConnectionPool<Stream>& pool_;
  const Request request_;
  const Events events_;
  std::unique_ptr<HttpConnection<Stream>> connection_;
  std::optional<Parser> parser_;
  std::array<char, 8192> piece_;
  Clock::time_point begin_;  // of writing
  bool reconnected_ = false, cancelled_ = false, ended_ = false;
};

}  // namespace tvq::loadtest

#endif  // TVQ_CLIENT_LOADTEST_HTTP_EXCHANGE_H_
