#include "tests/server/sessions/redis_proxy.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace tvq {
namespace {

sockaddr_un AddressOf(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, path.c_str(), sizeof(address.sun_path) - 1);
  return address;
}

// Negative if nobody is there.
int ConnectTo(const std::string& path) {
  const int socket = ::socket(AF_UNIX, SOCK_STREAM, 0);
  const sockaddr_un address = AddressOf(path);
  if (connect(socket, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0) {
    return socket;
  }
  close(socket);
  return -1;
}

// Empty at the end.
std::string Receive(int socket) {
  std::array<char, 1 << 16> buffer;
  const ssize_t got = recv(socket, buffer.data(), buffer.size(), 0);
  return {buffer.data(), got > 0 ? static_cast<size_t>(got) : 0};
}

void SendAll(int socket, const std::string& bytes) {
  for (size_t at = 0; at < bytes.size();) {
    const ssize_t sent = send(socket, bytes.data() + at, bytes.size() - at, MSG_NOSIGNAL);
    if (sent <= 0) return;
    at += static_cast<size_t>(sent);
  }
}

}  // namespace

RedisProxy::RedisProxy(const std::string& redis_socket) : redis_socket_(redis_socket) {
  path_ = redis_socket + ".proxy";
  listener_ = socket(AF_UNIX, SOCK_STREAM, 0);
  const sockaddr_un address = AddressOf(path_);
  EXPECT_EQ(bind(listener_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  EXPECT_EQ(listen(listener_, 64), 0);
  thread_ = std::thread([this] { Listen(); });
}

RedisProxy::~RedisProxy() {
  shutdown(listener_, SHUT_RDWR);
  thread_.join();
  close(listener_);
  {
    const std::lock_guard lock(mutex_);
    for (const int client : clients_) shutdown(client, SHUT_RDWR);
  }
  for (std::thread& thread : passing_) thread.join();
  for (const int client : clients_) close(client);
}

void RedisProxy::CutAt(const std::string& text, Cut cut) {
  const std::lock_guard lock(mutex_);
  cut_at_ = text;
  cut_ = cut;
}

void RedisProxy::Refuse(bool refuse) {
  const std::lock_guard lock(mutex_);
  refuse_ = refuse;
}

int RedisProxy::connections() const {
  const std::lock_guard lock(mutex_);
  return connections_;
}

void RedisProxy::Listen() {
  for (int client = 0; (client = accept(listener_, nullptr, nullptr)) >= 0;) {
    const std::lock_guard lock(mutex_);
    ++connections_;
    if (refuse_) {
      close(client);
      continue;
    }
    clients_.push_back(client);
    passing_.emplace_back([this, client] { Pass(client); });
  }
}

RedisProxy::Cut RedisProxy::Look(const std::string& bytes) {
  const std::lock_guard lock(mutex_);
  if (cut_ == Cut::kNever || bytes.find(cut_at_) == bytes.npos) return Cut::kNever;
  if (cut_ == Cut::kCommand) held_back_ = bytes;
  return std::exchange(cut_, Cut::kNever);
}

void RedisProxy::Pass(int client) {
  const int redis = ConnectTo(redis_socket_);
  if (redis < 0) {
    shutdown(client, SHUT_RDWR);
    return;
  }
  std::array<pollfd, 2> ends = {{{client, POLLIN, 0}, {redis, POLLIN, 0}}};
  Cut cut = Cut::kNever;
  while (poll(ends.data(), ends.size(), -1) >= 0) {
    if (ends[0].revents != 0) {
      const std::string bytes = Receive(client);
      if (bytes.empty()) break;
      if (cut == Cut::kNever) cut = Look(bytes);
      if (cut == Cut::kCommand) break;
      SendAll(redis, bytes);
    }
    if (ends[1].revents != 0) {
      const std::string bytes = Receive(redis);
      if (bytes.empty() || cut == Cut::kAnswer) break;
      SendAll(client, bytes);
    }
  }
  shutdown(client, SHUT_RDWR);
  close(redis);
}

std::string RedisProxy::Deliver() {
  std::string command;
  {
    const std::lock_guard lock(mutex_);
    command = held_back_;
  }
  const int redis = ConnectTo(redis_socket_);
  SendAll(redis, command);
  std::string answer = Receive(redis);
  close(redis);
  return answer;
}

}  // namespace tvq
