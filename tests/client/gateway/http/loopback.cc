#include "tests/client/gateway/http/loopback.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <boost/asio/post.hpp>
#include <new>
#include <string>
#include <utility>

namespace tvq::gateway {

LoopbackServer::LoopbackServer(const HttpOptions& options, Handler handler,
                               HttpServer::TlsSource tls) {
  ConnectionHooks hooks = {.handler = std::move(handler),
                           .error =
                               [](int status, std::string_view message) {
                                 if (status == 400)
                                   throw std::bad_alloc();  // as where memory is short
                                 return Response{.status = status, .body = std::string(message)};
                               },
                           .finished = [](const FinishedRequest&) {}};
  server_.emplace(loop_, options, std::move(hooks), std::move(tls), [](std::string_view) {});
  const absl::Status listens = server_->Listen();
  EXPECT_TRUE(listens.ok()) << listens;
  thread_ = std::thread([this] { loop_.run(); });
}

LoopbackServer::~LoopbackServer() {
  StopNow();
  thread_.join();
}

void LoopbackServer::StopNow() {
  asio::post(loop_, [this] {
    server_->Stop([] {});
    server_->StopNow();
  });
}

RawClient::RawClient(int port, int receive_bytes, const char* address)
    : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
  if (receive_bytes > 0) {
    ::setsockopt(socket_, SOL_SOCKET, SO_RCVBUF, &receive_bytes, sizeof(receive_bytes));
  }
  const timeval minute{.tv_sec = 60, .tv_usec = 0};
  ::setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &minute, sizeof(minute));
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_addr.s_addr = ::inet_addr(address);
  EXPECT_EQ(::bind(socket_, reinterpret_cast<const sockaddr*>(&to), sizeof(to)), 0);
  to.sin_port = htons(static_cast<uint16_t>(port));
  EXPECT_EQ(::connect(socket_, reinterpret_cast<const sockaddr*>(&to), sizeof(to)), 0);
}

void RawClient::Send(std::string_view bytes) { ASSERT_TRUE(SendIfOpen(bytes)); }

bool RawClient::SendIfOpen(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(sent));
  }
  return true;
}

std::string RawClient::Receive(size_t size) {
  std::string bytes(size, '\0');
  const ssize_t received = ::recv(socket_, bytes.data(), size, 0);
  bytes.resize(received > 0 ? static_cast<size_t>(received) : 0);
  return bytes;
}

std::string RawClient::Answer() {
  static constexpr std::string_view kLength = "\r\nContent-Length: ";
  while (true) {
    const size_t head = unread_.find("\r\n\r\n");
    if (head != std::string::npos) {
      const size_t length = unread_.find(kLength);
      const size_t size = head + 4 + std::stoul(unread_.substr(length + kLength.size()));
      if (unread_.size() >= size) {
        std::string answer = unread_.substr(0, size);
        unread_.erase(0, size);
        return answer;
      }
    }
    const std::string more = Receive(4096);
    if (more.empty()) return "";
    unread_ += more;
  }
}

void RawClient::Close() {
  if (socket_ >= 0) ::close(std::exchange(socket_, -1));
}

}  // namespace tvq::gateway
