#include "server/sessions/durable/redis/redis_connection.h"

#include <sys/socket.h>
#include <sys/time.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstddef>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace tvq {
namespace {

// How an error reply begins, alone or within the message of a script's failed command, and what it
// means for the command. The first that matches counts.
struct ErrorReply {
  const char* text;
  absl::StatusCode code;
  const char* meaning;
};
constexpr std::array<ErrorReply, 12> kErrorReplies = {{
    {"OOM ", absl::StatusCode::kResourceExhausted, "its memory is full"},
    {"READONLY ", absl::StatusCode::kUnavailable, "it is a replica that cannot be written"},
    {"LOADING ", absl::StatusCode::kUnavailable, "it is loading its data"},
    {"MISCONF ", absl::StatusCode::kUnavailable, "it cannot write to its disk"},
    {"MASTERDOWN ", absl::StatusCode::kUnavailable, "it has lost its master"},
    {"NOREPLICAS ", absl::StatusCode::kUnavailable, "it has too few replicas"},
    {"BUSY ", absl::StatusCode::kUnavailable, "it is busy with a script"},
    {"WRONGPASS ", absl::StatusCode::kUnavailable, "it refuses user or password"},
    {"NOAUTH ", absl::StatusCode::kUnavailable, "it wants a password"},
    {"NOPERM ", absl::StatusCode::kUnavailable, "its user lacks a permission"},
    {"DENIED ", absl::StatusCode::kUnavailable, "it refuses clients of other machines"},
    {"ERR max number of clients", absl::StatusCode::kUnavailable, "it has too many clients"},
}};

absl::Status ToStatus(const RedisAddress& address, std::string_view error) {
  const absl::string_view text(error.data(), error.size());
  for (const ErrorReply& known : kErrorReplies) {
    if (absl::StrContains(text, known.text)) {
      return {known.code,
              absl::StrCat("Redis at ", address.Display(), ": ", known.meaning, " (", text, ")")};
    }
  }
  return absl::InternalError(absl::StrCat("Redis at ", address.Display(), " answered: ", text));
}

// Moves past `sent` bytes of the pieces.
void Advance(size_t sent, std::span<iovec>* pieces) {
  while (!pieces->empty() && sent >= pieces->front().iov_len) {
    sent -= pieces->front().iov_len;
    *pieces = pieces->subspan(1);
  }
  if (pieces->empty()) return;
  pieces->front().iov_base = static_cast<char*>(pieces->front().iov_base) + sent;
  pieces->front().iov_len -= sent;
}

iovec Piece(std::string_view text) { return {const_cast<char*>(text.data()), text.size()}; }

}  // namespace

void FreeRedisReply::operator()(redisReply* reply) const { freeReplyObject(reply); }

RedisConnection::RedisConnection(const RedisAddress& address, const RedisTimeouts& timeouts)
    : address_(address), timeouts_(timeouts) {}

RedisConnection::~RedisConnection() {
  if (context_ != nullptr) redisFree(context_);
}

absl::Status RedisConnection::Broken(std::string_view doing, int error_number) {
  broken_ = true;
  timed_out_ = error_number == EAGAIN || error_number == EWOULDBLOCK || error_number == ETIMEDOUT ||
               error_number == EINPROGRESS;
  const std::string why = timed_out_ ? "it does not answer in time"
                          : context_ != nullptr && context_->err != 0
                              ? std::string(context_->errstr)
                              : std::string(std::strerror(error_number));
  return absl::UnavailableError(
      absl::StrCat("Redis at ", address_.Display(), ": ", std::string(doing), ": ", why));
}

// A Redis that does not want a client says why before it hangs up.
absl::Status RedisConnection::BrokenSending(int error_number) {
  const bool hung_up = error_number == EPIPE || error_number == ECONNRESET;
  for (void* raw = nullptr; hung_up && redisGetReply(context_, &raw) == REDIS_OK;) {
    const RedisReply reply(static_cast<redisReply*>(raw));
    if (reply->type != REDIS_REPLY_ERROR) continue;
    broken_ = true;
    return ToStatus(address_, std::string_view(reply->str, reply->len));
  }
  return Broken("sending", error_number);
}

absl::Status RedisConnection::Connect() {
  const timeval connect = absl::ToTimeval(timeouts_.connect);
  errno = 0;
  context_ = address_.host.empty()
                 ? redisConnectUnixWithTimeout(address_.socket_path.c_str(), connect)
                 : redisConnectWithTimeout(address_.host.c_str(), address_.port, connect);
  if (context_ == nullptr || context_->err != 0) return Broken("cannot connect", errno);
  if (absl::Status status = SetPatience(timeouts_.query); !status.ok()) return status;
  if (!address_.host.empty()) redisEnableKeepAlive(context_);
  return Login();
}

absl::Status RedisConnection::SetPatience(absl::Duration progress) {
  if (redisSetTimeout(context_, absl::ToTimeval(progress)) == REDIS_OK) return absl::OkStatus();
  return Broken("cannot set the socket's timeout", errno);
}

absl::Status RedisConnection::Login() {
  if (!address_.password.empty()) {
    const absl::StatusOr<RedisReply> reply = address_.user.empty()
                                                 ? Call({"AUTH", address_.password})
                                                 : Call({"AUTH", address_.user, address_.password});
    if (absl::IsInternal(reply.status())) {  // an older Redis, or one without a password
      return absl::UnavailableError(reply.status().message());
    }
    if (!reply.ok()) return reply.status();
  }
  if (address_.database == 0) return absl::OkStatus();
  const absl::StatusOr<RedisReply> reply = Call({"SELECT", absl::StrCat(address_.database)});
  return absl::IsInternal(reply.status()) ? absl::UnavailableError(reply.status().message())
                                          : reply.status();
}

// hiredis would copy the command into one string and send it so that a closed connection raises
// SIGPIPE; this does neither.
absl::Status RedisConnection::Send(std::span<const std::string_view> command) {
  std::vector<std::string> heads;
  heads.reserve(command.size());
  for (const std::string_view word : command) {
    heads.push_back(absl::StrCat(heads.empty() ? absl::StrCat("*", command.size(), "\r\n") : "\r\n",
                                 "$", word.size(), "\r\n"));
  }
  std::vector<iovec> pieces;
  pieces.reserve(2 * command.size() + 1);
  for (size_t i = 0; i < command.size(); ++i) {
    pieces.push_back(Piece(heads[i]));
    pieces.push_back(Piece(command[i]));
  }
  pieces.push_back(Piece("\r\n"));

  std::span<iovec> rest(pieces);
  while (!rest.empty()) {
    msghdr message{};
    message.msg_iov = rest.data();
    message.msg_iovlen = std::min<size_t>(rest.size(), IOV_MAX);
    const ssize_t sent = sendmsg(context_->fd, &message, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) return BrokenSending(errno);
    Advance(static_cast<size_t>(sent), &rest);
  }
  ++outstanding_;
  return absl::OkStatus();
}

absl::StatusOr<RedisReply> RedisConnection::Receive() {
  void* raw = nullptr;
  errno = 0;
  if (redisGetReply(context_, &raw) != REDIS_OK) {
    return Broken("receiving", context_->err == REDIS_ERR_IO ? errno : 0);
  }
  RedisReply reply(static_cast<redisReply*>(raw));
  --outstanding_;
  if (reply->type == REDIS_REPLY_ERROR) {
    return ToStatus(address_, std::string_view(reply->str, reply->len));
  }
  return reply;
}

absl::StatusOr<RedisReply> RedisConnection::Call(std::initializer_list<std::string_view> command) {
  if (absl::Status status = Send({command.begin(), command.size()}); !status.ok()) return status;
  return Receive();
}

bool RedisConnection::reusable() const {
  if (context_ == nullptr || broken_ || outstanding_ > 0) return false;
  char byte = 0;
  const ssize_t waiting = recv(context_->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  return waiting < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
}

}  // namespace tvq
