#include "server/rpc/limits/connections/header_blocks.h"

#include <dlfcn.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <spdlog/spdlog.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <memory>

namespace tvq {
namespace {

constexpr uint8_t kHeaders = 1;
constexpr uint8_t kContinuation = 9;
constexpr uint8_t kEndHeaders = 4;
constexpr std::chrono::seconds kBetweenWarnings{1};

std::atomic<int64_t> failed = 0;

// One line a second at most.
void Fail() {
  using std::chrono::steady_clock;
  static std::atomic<steady_clock::rep> next_line = steady_clock::duration::min().count();
  const int64_t count = ++failed;
  const auto now = steady_clock::now().time_since_epoch();
  auto due = next_line.load();
  if (now.count() < due || !next_line.compare_exchange_strong(
                               due, (now + steady_clock::duration(kBetweenWarnings)).count())) {
    return;
  }
  spdlog::warn(
      "closed a connection: its client sends headers that do not end, more than {} bytes; {} "
      "closed "
      "for that since the start",
      HeaderBlocks::kMostBytes, count);
}

// The next function of that name behind this program's own.
template <typename Function>
Function* Real(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

// Of sockets without TLS. A descriptor is read by one thread at a time, and is another socket's
// only after it was closed; what is kept of it stays.
struct Socket {
  uint64_t cookie = 0;  // the kernel's name for the socket
  HeaderBlocks blocks;
  bool failed = false;
};
constexpr int kMostDescriptors = 1 << 20;
std::array<std::atomic<Socket*>, kMostDescriptors> sockets;

uint64_t CookieOf(int fd) {
  uint64_t cookie = 0;
  socklen_t length = sizeof(cookie);
  return getsockopt(fd, SOL_SOCKET, SO_COOKIE, &cookie, &length) == 0 ? cookie : 0;
}

// Null for a socket that is not watched.
Socket* Find(int fd) {
  if (fd < 0 || fd >= kMostDescriptors) return nullptr;
  Socket* const socket = sockets[static_cast<size_t>(fd)].load();
  return socket != nullptr && socket->cookie == CookieOf(fd) ? socket : nullptr;
}

bool Take(Socket* socket, const msghdr& message, size_t count) {
  for (size_t i = 0; i < message.msg_iovlen && count > 0; ++i) {
    const iovec& part = message.msg_iov[i];
    const size_t bytes = std::min(count, part.iov_len);
    if (!socket->blocks.Take({static_cast<const uint8_t*>(part.iov_base), bytes})) return false;
    count -= bytes;
  }
  return true;
}

// Of a connection with TLS; it goes with it.
struct Secured {
  HeaderBlocks blocks;
  bool failed = false;
};

int SecuredIndex() {
  static const int index = SSL_get_ex_new_index(
      0, nullptr, nullptr, nullptr,
      [](void*, void* secured, CRYPTO_EX_DATA*, int, long, void*) {  // NOLINT(google-runtime-int)
        delete static_cast<Secured*>(secured);
      });
  return index;
}

Secured* SecuredOf(SSL* ssl) {
  auto* secured = static_cast<Secured*>(SSL_get_ex_data(ssl, SecuredIndex()));
  if (secured != nullptr) return secured;
  auto made = std::make_unique<Secured>();
  if (SSL_set_ex_data(ssl, SecuredIndex(), made.get()) != 1) return nullptr;
  return made.release();
}

}  // namespace

bool HeaderBlocks::Take(std::span<const uint8_t> bytes) {
  while (!bytes.empty()) {
    if (left_ > 0) {
      const auto skipped = static_cast<size_t>(std::min(left_, std::ssize(bytes)));
      left_ -= static_cast<int64_t>(skipped);
      bytes = bytes.subspan(skipped);
      continue;
    }
    head_[has_++] = bytes.front();
    bytes = bytes.subspan(1);
    if (has_ == kHead) Begin();
    if (block_ > kMostBytes) return false;
  }
  return true;
}

void HeaderBlocks::Begin() {
  has_ = 0;
  left_ = int64_t{head_[0]} << 16 | int64_t{head_[1]} << 8 | head_[2];
  const uint8_t type = head_[3], flags = head_[4];
  if (type != kHeaders && type != kContinuation) return;
  block_ = (type == kHeaders ? 0 : block_) + kHead + left_;
  if ((flags & kEndHeaders) != 0) block_ = 0;
}

void WatchHeaders(int fd) {
  if (fd < 0 || fd >= kMostDescriptors) return;
  std::atomic<Socket*>& at = sockets[static_cast<size_t>(fd)];
  Socket* socket = at.load();
  if (socket == nullptr) socket = new Socket;
  *socket = {.cookie = CookieOf(fd)};
  at = socket;
}

int64_t FailedForHeaders() { return failed; }

}  // namespace tvq

// NOLINTBEGIN(readability-identifier-naming): they are the system's and OpenSSL's.
extern "C" __attribute__((visibility("default"))) ssize_t recvmsg(int fd, msghdr* message,
                                                                  int flags) {
  static auto* const real = tvq::Real<ssize_t(int, msghdr*, int)>("recvmsg");
  const ssize_t count = real(fd, message, flags);
  if (count <= 0 || (flags & (MSG_PEEK | MSG_ERRQUEUE)) != 0) return count;
  tvq::Socket* const socket = tvq::Find(fd);
  if (socket == nullptr) return count;
  if (!socket->failed && tvq::Take(socket, *message, static_cast<size_t>(count))) return count;
  if (!socket->failed) tvq::Fail();
  socket->failed = true;
  errno = ECONNRESET;
  return -1;
}

extern "C" __attribute__((visibility("default"))) int SSL_read(SSL* ssl, void* out, int size) {
  static auto* const real = tvq::Real<int(SSL*, void*, int)>("SSL_read");
  const int count = real(ssl, out, size);
  if (count <= 0 || SSL_is_server(ssl) == 0) return count;
  tvq::Secured* const secured = tvq::SecuredOf(ssl);
  if (secured == nullptr) return count;
  if (!secured->failed &&
      secured->blocks.Take({static_cast<const uint8_t*>(out), static_cast<size_t>(count)})) {
    return count;
  }
  if (!secured->failed) tvq::Fail();
  secured->failed = true;
  ERR_raise_data(ERR_LIB_SSL, SSL_R_EXCESSIVE_MESSAGE_SIZE, "headers that do not end");
  return -1;
}
// NOLINTEND(readability-identifier-naming)
