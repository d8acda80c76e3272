// Connections that are kept and end, against a server of a few lines.
#include "client/loadtest/http/http_transport.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <chrono>
#include <functional>
#include <string>
#include <thread>

namespace tvq::loadtest {
namespace {

constexpr char kAnswer[] = "HTTP/1.1 200 OK\r\nContent-Length: 13\r\n\r\n{\"id\": \"one\"}";

// Listens on a port of its own and does `serve(listener)` in a thread.
class RawServer {
 public:
  explicit RawServer(const std::function<void(int listener)>& serve) {
    sockaddr_in address{.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t size = sizeof(address);
    auto* any = reinterpret_cast<sockaddr*>(&address);
    EXPECT_EQ(bind(listener_, any, size), 0);
    EXPECT_EQ(listen(listener_, 8), 0);
    const timeval patience{.tv_sec = 60};  // or a client that does not come would hold the test
    EXPECT_EQ(setsockopt(listener_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)), 0);
    EXPECT_EQ(getsockname(listener_, any, &size), 0);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this, serve] { serve(listener_); });
  }
  ~RawServer() {
    thread_.join();
    close(listener_);
  }
  RawServer(const RawServer&) = delete;
  RawServer& operator=(const RawServer&) = delete;

  HttpOptions Options() const {
    return {.url = {.host = "127.0.0.1", .port = std::to_string(port_)}};
  }

 private:
  const int listener_ = socket(AF_INET, SOCK_STREAM, 0);
  int port_ = 0;
  std::thread thread_;
};

// Reads a request's head; those of these tests that have a body come in one piece with it.
void TakeRequest(int connection) {
  std::string head;
  while (head.find("\r\n\r\n") == std::string::npos) {
    char piece[4096];
    const ssize_t size = read(connection, piece, sizeof(piece));
    ASSERT_GT(size, 0);
    head.append(piece, size);
  }
}

void Answer(int connection) {
  TakeRequest(connection);
  ASSERT_GT(write(connection, kAnswer, sizeof(kAnswer) - 1), 0);
}

// Waits for the end of one call.
class Waiting : public CallListener {
 public:
  explicit Waiting(Transport& transport) : transport_(transport) {}
  void OnTokens(int64_t) override {}
  void OnJoinedTokens(int64_t) override {}
  void OnReply(const Reply& r) override {
    reply = r;
    transport_.Stop();
  }
  Reply reply;

 private:
  Transport& transport_;
};

Reply CreateSession(Transport& transport) {
  Waiting waiting(transport);
  transport.CreateSession(&waiting);
  transport.Run();
  return waiting.reply;
}

TEST(HttpTransport, AConnectionThatWasClosedWhileIdleIsMadeAgain) {
  RawServer server([](int listener) {
    const int first = accept(listener, nullptr, nullptr);
    Answer(first);
    close(first);
    const int second = accept(listener, nullptr, nullptr);
    Answer(second);
    close(second);
  });
  HttpOptions options = server.Options();
  options.stale_within = 60 * kSecond;
  const auto transport = MakeHttpTransport(options, {});
  ASSERT_TRUE(transport.ok());
  EXPECT_FALSE(CreateSession(**transport).reconnected);
  const Reply reply = CreateSession(**transport);
  EXPECT_TRUE(reply.ok) << reply.message;
  EXPECT_EQ(reply.session_id, "one");
  EXPECT_TRUE(reply.reconnected);
}

TEST(HttpTransport, AConnectionThatIsLostUnderARequestIsAFailure) {
  RawServer server([](int listener) {
    const int connection = accept(listener, nullptr, nullptr);
    Answer(connection);
    TakeRequest(connection);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));  // of which 1 would be at once
    close(connection);
  });
  HttpOptions options = server.Options();
  options.stale_within = kMillisecond;
  const auto transport = MakeHttpTransport(options, {});
  ASSERT_TRUE(transport.ok());
  EXPECT_TRUE(CreateSession(**transport).ok);
  const Reply reply = CreateSession(**transport);
  EXPECT_EQ(reply.status, "CONNECTION");
  EXPECT_FALSE(reply.reconnected);
}

}  // namespace
}  // namespace tvq::loadtest
