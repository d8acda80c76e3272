// A request without a body, and what is answered.
#ifndef TVQ_TESTS_CLIENT_GATEWAY_API_FAKE_EXCHANGE_H_
#define TVQ_TESTS_CLIENT_GATEWAY_API_FAKE_EXCHANGE_H_

#include <boost/asio/io_context.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "client/gateway/http/exchange.h"

namespace tvq::gateway {

class FakeExchange : public Exchange {
 public:
  FakeExchange(asio::io_context& loop, std::string method, std::string path) : loop_(loop) {
    request_.method = std::move(method);
    request_.path = std::move(path);
  }

  const Request& request() const override { return request_; }
  const std::string& request_id() const override { return id_; }
  std::chrono::steady_clock::time_point started() const override { return {}; }
  asio::any_io_executor executor() const override { return loop_.get_executor(); }
  const std::shared_ptr<Peer>& peer() const override { return peer_; }
  void set_route(std::string_view) override {}
  void AddHeader(Header) override {}
  std::optional<uint64_t> content_length() const override { return std::nullopt; }
  asio::awaitable<absl::StatusOr<std::string>> ReadPiece(size_t) override { co_return ""; }
  void BodyDone() override {}
  bool Hold(size_t bytes) override {
    held += bytes;
    return true;
  }
  bool HoldInstead(size_t bytes) override {
    held = bytes;
    return true;
  }
  std::string MemoryFull() const override { return ""; }
  void OnHangUp(absl::AnyInvocable<void()> cancel) override { cancel_ = std::move(cancel); }
  bool gone() const override { return false; }
  asio::awaitable<void> Respond(Response response) override {
    written = std::move(response.body);
    co_return;
  }
  asio::awaitable<bool> Begin(Response, std::optional<uint64_t>) override {
    begun_ = true;
    co_return true;
  }
  asio::awaitable<bool> Write(std::string_view bytes) override {
    written += bytes;
    co_return true;
  }
  asio::awaitable<void> End() override { co_return; }
  void Abort() override {}
  bool begun() const override { return begun_; }

  size_t held = 0;
  std::string written;

 private:
  asio::io_context& loop_;
  Request request_;
  const std::string id_ = "r";
  const std::shared_ptr<Peer> peer_ = std::make_shared<Peer>();
  absl::AnyInvocable<void()> cancel_;
  bool begun_ = false;
};

}  // namespace tvq::gateway

#endif  // TVQ_TESTS_CLIENT_GATEWAY_API_FAKE_EXCHANGE_H_
