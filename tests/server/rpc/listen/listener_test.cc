#include "server/rpc/listen/listener.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <memory>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "tests/server/rpc/limits/connections/connect.h"

namespace tvq {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

constexpr std::string_view kHttp2 = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

class Client {
 public:
  explicit Client(int port, in_addr_t from = INADDR_ANY)
      : fd_(ConnectTo(port, INADDR_LOOPBACK, from)) {
    EXPECT_TRUE(fd_.ok());
  }

  void Send(std::string_view bytes) const {
    EXPECT_EQ(send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL), bytes.size());
  }

  void End() const { shutdown(fd_.get(), SHUT_WR); }

  // Whether the server has neither sent anything nor closed.
  bool IsOpen() const {
    char byte = 0;
    return recv(fd_.get(), &byte, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN;
  }

  // All that comes until the server closes.
  std::string Read() const {
    std::string all;
    std::array<char, 1024> bytes;
    ssize_t count = 0;
    while ((count = recv(fd_.get(), bytes.data(), bytes.size(), 0)) > 0) {
      all.append(bytes.data(), static_cast<size_t>(count));
    }
    return all;
  }

 private:
  Descriptor fd_;
};

class ListenerTest : public testing::Test {
 protected:
  void Start(const ListenerOptions& options) {
    Listen(options);
    Serve();
  }

  // Clients can connect, which nobody accepts before Serve.
  void Listen(const ListenerOptions& options) {
    auto listening = ListenOn("127.0.0.1", 0);
    ASSERT_TRUE(listening.ok()) << listening.status();
    port_ = listening->port;
    auto listener = Listener::Create(*std::move(listening), options, &admission_);
    ASSERT_TRUE(listener.ok()) << listener.status();
    listener_ = *std::move(listener);
  }

  void Serve() {
    listener_->Start([this](Descriptor fd) {
      absl::MutexLock lock(&mutex_);
      taken_.push_back(std::move(fd));
    });
  }

  // `address`: that of the client is 127.0.0.`address`.
  Client Connect(int address = 1) const {
    return Client(port_, (INADDR_LOOPBACK & ~0xFFU) + static_cast<in_addr_t>(address));
  }

  // Many of 127.0.0.1, of which the last is the first beyond kMaxStrangers where there are
  // `others`.
  std::vector<Client> ConnectMany(size_t others, std::string_view first_bytes) const {
    std::vector<Client> many;
    while (many.size() + others <= Listener::kMaxStrangers) {
      many.push_back(Connect());
      many.back().Send(first_bytes);
    }
    return many;
  }

  // As long as nobody looks.
  void LetNoneIn() {
    while (admission_.Enter("192.0.2.1", Admission::Load::kLight, {})) {
    }
  }

  // What the next client sent, which is all still there.
  std::string Take(size_t bytes) {
    absl::MutexLock lock(&mutex_);
    const auto some = [this] { return !taken_.empty(); };
    if (!mutex_.AwaitWithTimeout(absl::Condition(&some), absl::Minutes(1))) {
      ADD_FAILURE() << "no client is handed over";
      return "";
    }
    std::string text(bytes, ' ');
    EXPECT_EQ(recv(taken_.back().get(), text.data(), bytes, MSG_WAITALL), bytes);
    taken_.pop_back();
    return text;
  }

  size_t taken() {
    absl::MutexLock lock(&mutex_);
    return taken_.size();
  }

  absl::Mutex mutex_;
  std::vector<Descriptor> taken_;
  int port_ = 0;
  Admission admission_;
  std::unique_ptr<Listener> listener_;
};

TEST_F(ListenerTest, HandsOverWithAllThatWasSent) {
  Start({});
  const Client client = Connect();
  for (const char c : kHttp2) client.Send({&c, 1});
  EXPECT_EQ(Take(kHttp2.size()), kHttp2);
}

TEST_F(ListenerTest, HandsOverATlsHandshakeAtItsFirstByte) {
  Start({.tls = true});
  const Client client = Connect();
  client.Send("\x16");
  EXPECT_EQ(Take(1), "\x16");
}

TEST_F(ListenerTest, AnswersHttp1AndReadsWhatElseComes) {
  Start({});
  const Client client = Connect();
  client.Send("POST /v1/completions HTTP/1.1\r\nContent-Length: 30000\r\n\r\n");
  client.Send(std::string(30'000, 'x'));
  const std::string answer = client.Read();
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 400 "));
  EXPECT_THAT(answer, HasSubstr("tvq-gateway"));
  EXPECT_EQ(taken(), 0);
}

TEST_F(ListenerTest, AnswersHttp1OfALargeBody) {
  Start({});
  const Client client = Connect();
  client.Send("POST /v1/completions HTTP/1.1\r\nContent-Length: 10000000\r\n\r\n");
  const std::string part(1'000'000, 'x');
  for (int i = 0; i < 10; ++i) client.Send(part);
  EXPECT_THAT(client.Read(), StartsWith("HTTP/1.1 400 "));
}

TEST_F(ListenerTest, ReadsNoHttp1WithoutEnd) {
  Start({});
  const Descriptor client = ConnectTo(port_);
  const std::string piece = "POST / HTTP/1.1\r\n" + std::string(1 << 20, 'x');
  size_t sent = 0;
  ssize_t count = 0;
  while ((count = send(client.get(), piece.data(), piece.size(), MSG_NOSIGNAL)) > 0) {
    sent += static_cast<size_t>(count);
  }
  EXPECT_GT(sent, size_t{16} << 20);
}

TEST_F(ListenerTest, ClosesWhatSpeaksNeither) {
  Start({});
  const Client client = Connect();
  client.Send("SSH-2.0-OpenSSH_9.2\r\n");
  EXPECT_THAT(client.Read(), IsEmpty());
  EXPECT_EQ(taken(), 0);
}

TEST_F(ListenerTest, ClosesAtOnceWhatEndsInThePreface) {
  Start({});
  const Client before = Connect();
  const Client client = Connect();
  client.Send(kHttp2.substr(0, 3));
  client.End();
  EXPECT_THAT(client.Read(), IsEmpty());
  EXPECT_TRUE(before.IsOpen()) << "its time is not over, so that of the other was not";
}

TEST_F(ListenerTest, ClosesTheOldestOfTooManyStrangers) {
  ASSERT_GT(RaiseDescriptorLimit(), 2 * Listener::kMaxStrangers + 600) << "the test has both ends";
  Start({.max_descriptors = RaiseDescriptorLimit()});
  const Client oldest = Connect();
  std::vector<Client> strangers;
  while (strangers.size() < Listener::kMaxStrangers) strangers.push_back(Connect());
  EXPECT_THAT(oldest.Read(), IsEmpty());
  strangers[Listener::kMaxStrangers / 8].Send(kHttp2);
  EXPECT_EQ(Take(kHttp2.size()), kHttp2) << "most of the others stay";
}

TEST_F(ListenerTest, ClosesClientsThatWaitOfTheNetworkWithTheMost) {
  ASSERT_GT(RaiseDescriptorLimit(), 2 * Listener::kMaxStrangers + 600) << "the test has both ends";
  LetNoneIn();
  Start({.max_descriptors = RaiseDescriptorLimit()});
  const Client other = Connect(2);
  other.Send(kHttp2);
  const std::vector<Client> many = ConnectMany(1, kHttp2);
  EXPECT_THAT(many.front().Read(), IsEmpty()) << "the oldest of them";
  EXPECT_TRUE(many.back().IsOpen());
  EXPECT_TRUE(other.IsOpen()) << "which is older";
}

TEST_F(ListenerTest, ClosesClientsThatWaitFirstIfTheyAreSuspect) {
  ASSERT_GT(RaiseDescriptorLimit(), 2 * Listener::kMaxStrangers + 600) << "the test has both ends";
  admission_.Looked({.crowded = true, .wary = {"127.0.0.3"}});
  Start({.max_descriptors = RaiseDescriptorLimit()});
  const Client before = Connect(4);
  const Client heavy = Connect(2);
  heavy.Send(std::string(kHttp2) + std::string(10'000, 'x'));  // at once: it is let in by less
  const Client wary = Connect(3);
  wary.Send(kHttp2);
  const std::vector<Client> many = ConnectMany(3, "");
  EXPECT_THAT(heavy.Read(), IsEmpty());
  EXPECT_THAT(wary.Read(), IsEmpty());
  EXPECT_TRUE(before.IsOpen()) << "its time is not over, so that of the others was not";
}

TEST_F(ListenerTest, MakesRoomOfStrangersWhenDescriptorsAreShort) {
  Start({.max_descriptors = 240});  // of which the clients here take more than 100, too
  std::vector<Client> strangers;
  while (strangers.size() < 100) strangers.push_back(Connect());
  const Client last = Connect();
  last.Send(kHttp2);
  EXPECT_EQ(Take(kHttp2.size()), kHttp2);
  EXPECT_THAT(strangers.front().Read(), IsEmpty()) << "the oldest is closed";
  EXPECT_GT(listener_->closed(), 0);
}

TEST_F(ListenerTest, ConnectionsAreBoundedAndSomeAreKeptForNetworksThatHaveNone) {
  constexpr int kMost = 100;  // of both ends, which this process has
  Start({.max_descriptors = RaiseDescriptorLimit(), .max_connections = kMost});
  std::vector<Client> clients;
  const auto is_taken = [&](int address) {
    admission_.Looked({});
    const size_t before = taken();
    clients.push_back(Connect(address));
    clients.back().Send(kHttp2);
    while (taken() == before && clients.back().IsOpen()) absl::SleepFor(absl::Milliseconds(1));
    return taken() > before;
  };
  while (is_taken(1)) {
    ASSERT_LE(clients.size(), kMost / 2);
  }
  EXPECT_GE(clients.size(), kMost / 2 - 2);
  EXPECT_FALSE(is_taken(1));
  for (const int address : {2, 3}) {
    EXPECT_TRUE(is_taken(address)) << address;
    EXPECT_FALSE(is_taken(address)) << address << " has one now";
  }
}

TEST_F(ListenerTest, ClosesAndLogsTheOldestOfTooManyHandshakes) {
  std::ostringstream log;
  const auto logger = spdlog::default_logger();
  spdlog::set_default_logger(std::make_shared<spdlog::logger>(
      "test", std::make_shared<spdlog::sinks::ostream_sink_mt>(log)));
  Start({.tls = true, .max_handshakes = 4});
  std::vector<Client> clients;
  while (clients.size() < 5) {
    clients.push_back(Connect());
    clients.back().Send("\x16");
    while (taken() < clients.size()) absl::SleepFor(absl::Milliseconds(1));
  }
  EXPECT_THAT(clients.front().Read(), IsEmpty());
  EXPECT_TRUE(clients.back().IsOpen());
  listener_->Stop();
  spdlog::set_default_logger(logger);
  EXPECT_EQ(listener_->closed(), 2);
  EXPECT_THAT(log.str(), HasSubstr("more than 4 TLS handshakes were under way at once: closed the "
                                   "2 oldest"));
}

// This process may have so many descriptors until the end.
class Limit {
 public:
  explicit Limit(int descriptors) {
    getrlimit(RLIMIT_NOFILE, &before_);
    rlimit less = before_;
    less.rlim_cur = static_cast<rlim_t>(descriptors);
    setrlimit(RLIMIT_NOFILE, &less);
  }
  ~Limit() { setrlimit(RLIMIT_NOFILE, &before_); }
  Limit(const Limit&) = delete;

 private:
  rlimit before_{};
};

TEST(ListenerCreateTest, TellsThatThereAreNoDescriptors) {
  for (const int left : {0, 1}) {
    Admission admission;
    auto listening = ListenOn("127.0.0.1", 0);
    ASSERT_TRUE(listening.ok()) << listening.status();
    const int next = ConnectTo(listening->port).get();  // the smallest that is free
    const Limit limit(next + left);
    EXPECT_EQ(Listener::Create(*std::move(listening), {}, &admission).status().message(),
              "cannot wait for clients: Too many open files");
  }
}

TEST_F(ListenerTest, ClientsWaitForAdmissionThoseThatHaveSentMuchTheLongest) {
  LetNoneIn();
  Start({});
  const Client heavy = Connect();
  heavy.Send(kHttp2);
  heavy.Send(std::string(10'000, 'x'));
  const Client light = Connect();
  light.Send(kHttp2);
  absl::SleepFor(absl::Milliseconds(100));
  EXPECT_EQ(taken(), 0);
  admission_.Looked({.crowded = true});
  EXPECT_EQ(Take(kHttp2.size()), kHttp2);
  absl::SleepFor(2 * absl::FromChrono(Admission::kRarely));
  EXPECT_EQ(taken(), 0);
  admission_.Looked({});
  EXPECT_EQ(Take(kHttp2.size() + 1), std::string(kHttp2) + "x");
}

TEST_F(ListenerTest, ClientsThatWaitAreHandedOverOnceHoweverMuchTheySend) {
  LetNoneIn();
  Start({});
  const Client client = Connect();
  client.Send(kHttp2);
  for (int i = 0; i < 10; ++i) {
    absl::SleepFor(absl::Milliseconds(1));
    client.Send("x");
  }
  admission_.Looked({});
  EXPECT_EQ(Take(kHttp2.size() + 10), std::string(kHttp2) + std::string(10, 'x'));
  const Client next = Connect();
  next.Send(kHttp2);
  EXPECT_EQ(Take(kHttp2.size()), kHttp2);
}

TEST_F(ListenerTest, ClientsThatGoAwayWaitNoLonger) {
  LetNoneIn();
  Start({});
  const Client gone = Connect();
  gone.Send(kHttp2);
  gone.End();
  EXPECT_THAT(gone.Read(), IsEmpty()) << "the server has closed it, too";
  admission_.Looked({});
  absl::SleepFor(absl::Milliseconds(100));
  EXPECT_EQ(taken(), 0);
}

TEST_F(ListenerTest, ClientsThatGoAwayWithTheirFirstBytesDoNotWait) {
  LetNoneIn();
  Listen({});
  const Client before = Connect();
  const Client gone = Connect();
  gone.Send(kHttp2);
  gone.End();
  Serve();
  EXPECT_THAT(gone.Read(), IsEmpty());
  EXPECT_TRUE(before.IsOpen()) << "its time is not over, so that of the other was not";
}

// The listener learns that a client has ended while it closes that client for others, one of which
// gets the number of its descriptor.
TEST_F(ListenerTest, TakesNoClientForOneThatHadItsDescriptor) {
  ASSERT_GT(RaiseDescriptorLimit(), 2 * Listener::kMaxStrangers + 600) << "the test has both ends";
  Listen({.max_descriptors = RaiseDescriptorLimit()});
  absl::Mutex holds;
  listener_->Start([&](Descriptor) { absl::MutexLock lock(&holds); });
  const Client oldest = Connect();
  const std::vector<Client> many = ConnectMany(3, "");
  holds.Lock();
  const Client held = Connect();
  held.Send(kHttp2);
  absl::SleepFor(
      absl::Milliseconds(100));  // the listener hands it over, and then sees all the rest
  std::vector<Client> newcomers;
  while (newcomers.size() < 8) {
    newcomers.push_back(Connect());
    newcomers.back().Send(kHttp2.substr(0, 1));
  }
  oldest.End();
  holds.Unlock();
  EXPECT_THAT(oldest.Read(), IsEmpty());
  absl::SleepFor(absl::Milliseconds(100));
  for (const Client& newcomer : newcomers) EXPECT_TRUE(newcomer.IsOpen());
}

TEST_F(ListenerTest, ClosesItsPortAndItsStrangers) {
  Start({});
  const Client stranger = Connect();
  const Client served = Connect();
  served.Send(kHttp2);
  EXPECT_EQ(Take(kHttp2.size()), kHttp2);
  listener_->Stop();
  EXPECT_THAT(stranger.Read(), IsEmpty());
  EXPECT_TRUE(ListenOn("127.0.0.1", port_).ok());
}

}  // namespace
}  // namespace tvq
