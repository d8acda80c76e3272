#include "server/rpc/listen/listener.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <spdlog/spdlog.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <functional>
#include <ranges>
#include <string_view>
#include <system_error>
#include <tuple>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/network.h"
#include "server/rpc/limits/connections/socket_address.h"
#include "server/rpc/listen/first_bytes.h"

namespace tvq {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// Taken at once.
constexpr int kEvents = 64;
constexpr int kAccepts = 64;

// How long a client of HTTP/1 may take to read the answer, from when it sent something last. It may
// send kMostDropped, as much as four of the largest bodies that the gateway takes by default, and
// for Listener::kFirstBytes.
constexpr milliseconds kGoodbye{1000};
constexpr size_t kDroppedAtOnce = size_t{256} << 10;
constexpr size_t kMostDropped = size_t{64} << 20;

// Strangers closed at once where there are kMaxStrangers: choosing them takes as long for one.
constexpr size_t kStrangersAtOnce = Listener::kMaxStrangers / 16;

// A stranger that is younger than this is closed only if nothing else can be.
constexpr milliseconds kFair{500};

// How long to wait before the next accept: kSettle for gRPC to close the descriptors of connections
// that were just ended, kShort if none could be ended.
constexpr milliseconds kSettle{10};
constexpr milliseconds kShort{100};

constexpr std::chrono::seconds kBetweenLines{1};

// The limit on descriptors; clients get all but the reserve. `own`: the newest descriptor so far.
int MostDescriptors(const ListenerOptions& options, int own) {
  return std::min(options.max_descriptors, Room::DescriptorsFor(own + 1 + options.max_connections));
}

// Whether a line may be logged now. If so, the next one is due only kBetweenLines later.
bool IsDue(steady_clock::time_point now, steady_clock::time_point& next) {
  if (now < next) return false;
  next = now + kBetweenLines;
  return true;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Listener>> Listener::Create(ListeningSockets listening,
                                                           const ListenerOptions& options,
                                                           Admission* admission) {
  Descriptor epoll(epoll_create1(EPOLL_CLOEXEC));
  Descriptor wake(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!epoll.ok() || !wake.ok()) {
    return absl::UnavailableError(
        absl::StrCat("cannot wait for clients: ", std::generic_category().message(errno)));
  }
  return std::unique_ptr<Listener>(
      new Listener(std::move(listening), options, admission, std::move(epoll), std::move(wake)));
}

Listener::Listener(ListeningSockets listening, const ListenerOptions& options, Admission* admission,
                   Descriptor epoll, Descriptor wake)
    : listening_(std::move(listening)),
      options_(options),
      most_descriptors_(MostDescriptors(options, wake.get())),
      room_(listening_.port, options.tls, most_descriptors_, options.max_handshakes,
            options.key_holders),
      admission_(admission),
      waiting_(admission),
      epoll_(std::move(epoll)),
      wake_(std::move(wake)) {}

void Listener::Start(std::function<void(Descriptor)> take) {
  take_ = std::move(take);
  Watch(wake_.get(), EPOLLIN);
  for (const Descriptor& socket : listening_.sockets) Watch(socket.get(), EPOLLIN);
  thread_ = std::thread([this] { Run(); });
}

void Listener::Stop() {
  if (!thread_.joinable()) return;
  stopping_ = true;
  eventfd_write(wake_.get(), 1);
  thread_.join();
  listening_.sockets.clear();
  strangers_.clear();
}

void Listener::Watch(int fd, uint32_t events) const {
  epoll_event event{.events = events, .data = {.fd = fd}};
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) {
    epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, fd, &event);
  }
}

void Listener::Run() {
  std::array<epoll_event, kEvents> events;
  while (true) {
    // None, rather than -1, where a signal interrupts it, as SIGCONT does.
    const int count =
        std::max(0, epoll_wait(epoll_.get(), events.data(), kEvents, Timeout(steady_clock::now())));
    if (stopping_) return;
    const Time now = steady_clock::now();
    if (paused_ && now >= *paused_) Resume();
    const auto is_stranger = [this](const epoll_event& event) {
      return strangers_.contains(event.data.fd);
    };
    // Strangers first: Accept may close some of them, and other clients then get their numbers.
    std::partition(events.begin(), events.begin() + count, is_stranger);
    for (int i = 0; i < count; ++i) {
      const int fd = events[i].data.fd;
      if (is_stranger(events[i])) {
        Look(fd, (events[i].events & EPOLLRDHUP) != 0, now);
      } else if (!paused_) {
        Accept(fd, now);
      }
    }
    for (const int fd : waiting_.Enter(now)) HandOver(Leave(fd), now);
    CloseLate(now);
  }
}

int Listener::Timeout(Time now) const {
  Time until = Time::max();
  if (!ends_.empty()) until = ends_.begin()->first;
  if (paused_) until = std::min(until, *paused_);
  if (!waiting_.empty()) until = std::min(until, waiting_.next());
  if (until == Time::max()) return -1;
  const auto left = std::chrono::ceil<milliseconds>(until - now).count();
  return static_cast<int>(std::max<int64_t>(left, 0));
}

void Listener::Accept(int listening, Time now) {
  for (int i = 0; i < kAccepts && !paused_; ++i) {
    Descriptor fd(accept4(listening, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (fd.ok()) {
      Enter(std::move(fd), now);
      continue;
    }
    if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
      Pause(now + (MakeRoom(now) ? kSettle : kShort));
      LogShortage(now);
    } else if (errno == EINTR || errno == ECONNABORTED) {
      continue;
    }
    return;
  }
}

void Listener::Enter(Descriptor fd, Time now) {
  const auto peer = PeerOf(fd.get());
  if (!peer) return;  // has gone already
  if (room_.IsShort(fd.get())) {
    const bool made = MakeRoom(now) && !room_.IsFull(fd.get());
    const bool enters = made || room_.IsKeptFor(fd.get(), *peer);
    if (!enters) {
      ++refused_;
      ++closed_;
    }
    Pause(now + (made ? kSettle : kShort));
    LogShortage(now);
    if (!enters) return;
  }
  if (strangers_.size() >= kMaxStrangers) CloseStrangers(now, kStrangersAtOnce);
  const int yes = 1;
  setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
  const auto acknowledge = static_cast<unsigned>(options_.acknowledge.count());
  setsockopt(fd.get(), IPPROTO_TCP, TCP_USER_TIMEOUT, &acknowledge, sizeof(acknowledge));
  const int number = fd.get();
  Stranger& stranger = strangers_[number];
  stranger = {.fd = std::move(fd), .peer = *peer, .network = NetworkOf(peer->ip)};
  SetEnd(stranger, now + kFirstBytes);
  // Edge-triggered, for what has come is not read: it would be reported again and again.
  Watch(number, EPOLLIN | EPOLLRDHUP | EPOLLET);
}

void Listener::SetEnd(Stranger& stranger, Time until) {
  ends_.erase({stranger.until, stranger.fd.get()});
  stranger.until = until;
  ends_.emplace(until, stranger.fd.get());
}

Listener::Stranger Listener::Leave(int fd) {
  const auto at = strangers_.find(fd);
  Stranger stranger = std::move(at->second);
  strangers_.erase(at);
  ends_.erase({stranger.until, fd});
  if (stranger.waits) waiting_.Remove(fd);
  epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
  return stranger;
}

void Listener::Look(int fd, bool ended, Time now) {
  Stranger& stranger = strangers_.at(fd);
  if (stranger.answered) return Drop(fd, now);
  if (stranger.waits) {
    if (ended) Leave(fd);
    return;
  }
  std::array<char, kPrefaceBytes> bytes;
  const ssize_t count = recv(fd, bytes.data(), bytes.size(), MSG_PEEK | MSG_DONTWAIT);
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (count <= 0) {
    Leave(fd);
    return;
  }
  switch (ProtocolOf({bytes.data(), static_cast<size_t>(count)}, options_.tls)) {
    case Protocol::kUnknown:
      if (ended) Leave(fd);
      return;
    case Protocol::kGrpc:
      if (ended) {
        Leave(fd);
        return;
      }
      stranger.waits = true;
      return waiting_.Add(fd, stranger.network);
    case Protocol::kHttp1:
      return Answer(stranger, now);
    case Protocol::kOther:
      Leave(fd);
  }
}

void Listener::HandOver(Stranger stranger, Time now) {
  if (const int closed = room_.HandedOver(stranger.peer, now); closed > 0) {
    closed_ += closed;
    LogHandshakes(closed, now);
  }
  take_(std::move(stranger.fd));
}

void Listener::Answer(Stranger& stranger, Time now) {
  const std::string_view answer = AnswerToHttp1();
  const int fd = stranger.fd.get();
  send(fd, answer.data(), answer.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  shutdown(fd, SHUT_WR);
  stranger.answered = now;
  SetEnd(stranger, now + kGoodbye);
  Watch(fd, EPOLLIN | EPOLLRDHUP);  // as long as there is something
}

void Listener::Drop(int fd, Time now) {
  Stranger& stranger = strangers_.at(fd);
  const ssize_t count = recv(fd, nullptr, kDroppedAtOnce, MSG_TRUNC | MSG_DONTWAIT);
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (count > 0) stranger.dropped += static_cast<size_t>(count);
  if (count <= 0 || stranger.dropped >= kMostDropped) {
    Leave(fd);
    return;
  }
  SetEnd(stranger, std::min(now + kGoodbye, *stranger.answered + kFirstBytes));
}

void Listener::CloseLate(Time now) {
  while (!ends_.empty() && ends_.begin()->first <= now) Leave(ends_.begin()->second);
}

bool Listener::MakeRoom(Time now) {
  const bool being_made = now < room_.next();
  const size_t half = (strangers_.size() + 1) / 2;
  int64_t closed = CloseStrangers(now - kFair, half);
  if (closed == 0) closed = room_.Make(now);
  if (closed == 0 && !being_made) closed = CloseStrangers(now, half);
  closed_ += closed;
  return closed > 0 || being_made;
}

int64_t Listener::CloseStrangers(Time before, size_t most) {
  std::map<std::string_view, size_t> later;  // strangers of a network
  std::vector<std::tuple<bool, size_t, size_t, int>> order;
  for (const auto& [until, fd] : std::views::reverse(ends_)) {
    const Stranger& one = strangers_.at(fd);
    const size_t rank = later[one.network]++;
    if (until > before + kFirstBytes) continue;
    const bool suspect = admission_->IsSuspect(one.network, LoadOf(fd));
    order.emplace_back(suspect, rank, order.size(), fd);
  }
  std::ranges::sort(order, std::greater());
  if (order.size() > most) order.resize(most);
  for (const auto& [suspect, rank, age, fd] : order) Leave(fd);
  return static_cast<int64_t>(order.size());
}

void Listener::Pause(Time until) {
  if (!paused_) {
    for (const Descriptor& socket : listening_.sockets) Watch(socket.get(), 0);
  }
  paused_ = until;
}

void Listener::Resume() {
  paused_.reset();
  for (const Descriptor& socket : listening_.sockets) Watch(socket.get(), EPOLLIN);
}

void Listener::LogShortage(Time now) {
  if (!IsDue(now, next_shortage_)) return;
  const std::string shortage = most_descriptors_ < options_.max_descriptors
                                   ? absl::StrCat("about ", options_.max_connections,
                                                  " connections are open (--max-connections)")
                                   : absl::StrCat("nearly all of ", most_descriptors_,
                                                  " descriptors are in use (ulimit -n)");
  spdlog::warn(
      "{}: closed {} connections since the start that did nothing, had no key or could not be "
      "taken, {} of these as all others were busy",
      shortage, closed_.load(), refused_);
}

void Listener::LogHandshakes(int closed, Time now) {
  if (!IsDue(now, next_handshakes_)) return;
  spdlog::warn("more than {} TLS handshakes were under way at once: closed the {} oldest",
               options_.max_handshakes, closed);
}

}  // namespace tvq
