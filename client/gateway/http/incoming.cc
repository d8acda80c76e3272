#include "client/gateway/http/incoming.h"

#include <boost/asio/error.hpp>
#include <chrono>
#include <cstring>
#include <utility>

namespace tvq::gateway {
namespace {

// Read ahead of what will want it, such as a pipelined request.
constexpr size_t kAheadBytes = 2048;
// With so much unread the other side's end is not read: it is looked for after every such time.
constexpr std::chrono::milliseconds kLookAgain{250};

}  // namespace

Incoming::Incoming(std::shared_ptr<Transport> transport, const asio::any_io_executor& executor)
    : transport_(std::move(transport)), signal_(executor), look_(executor) {}

asio::awaitable<bool> Incoming::More(size_t wanted) {
  const size_t before = bytes().size();
  if (error_ == asio::error::operation_aborted) error_.clear();
  while (!error_ && bytes().size() == before) {
    if (!reading_) Start(wanted);
    co_await signal_.Wait();
  }
  co_return bytes().size() > before;
}

void Incoming::Watch(absl::AnyInvocable<void()> ended) {
  on_end_ = std::move(ended);
  WatchOn();
}

void Incoming::Unwatch() {
  on_end_ = nullptr;
  look_.cancel();
}

void Incoming::WatchOn() {
  if (error_) {
    End();
  } else if (!reading_ && bytes().size() < kAheadBytes) {
    Start(kAheadBytes);
  } else if (!reading_) {
    Look();
  }
}

void Incoming::Look() {
  if (std::exchange(looking_, true)) return;
  look_.expires_after(kLookAgain);
  look_.async_wait([weak = weak_from_this()](ErrorCode) {
    const auto self = weak.lock();
    if (self == nullptr) return;
    self->looking_ = false;
    if (!self->on_end_) return;
    if (self->transport_->OtherSideEnded()) {
      self->End();
    } else {
      self->WatchOn();
    }
  });
}

void Incoming::End() {
  if (on_end_) std::exchange(on_end_, nullptr)();
}

// Thousands of connections may wait for a first byte: they have small buffers.
void Incoming::Start(size_t wanted) {
  if (begin_ == end_) {
    begin_ = end_ = 0;
    if (buffer_.size() > wanted) std::vector<char>().swap(buffer_);
  } else if (begin_ > 0) {
    std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
  }
  if (buffer_.size() - end_ < wanted / 2) buffer_.resize(end_ + wanted);
  reading_ = true;
  transport_->ReadSome(
      asio::buffer(buffer_.data() + end_, buffer_.size() - end_),
      [self = shared_from_this()](ErrorCode error, size_t bytes) { self->OnRead(error, bytes); });
}

void Incoming::OnRead(ErrorCode error, size_t bytes) {
  reading_ = false;
  error_ = error;
  if (!error) end_ += bytes;
  if (on_end_) WatchOn();
  signal_.Notify();
}

}  // namespace tvq::gateway
