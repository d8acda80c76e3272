#include "client/gateway/upstream/call_queue.h"

#include <grpc/support/time.h>

#include <boost/asio/post.hpp>
#include <chrono>
#include <cstddef>
#include <iterator>
#include <new>
#include <thread>
#include <utility>

namespace tvq::gateway {
namespace {

// The loop hears of events after at most this many, even if more are ready.
constexpr int kBurst = 64;

// Does `work` as soon as there is memory for it: requests that end give theirs back.
template <typename Work>
auto Insist(const Work& work) {
  while (true) {
    try {
      return work();
    } catch (const std::bad_alloc&) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  }
}

}  // namespace

CallQueue::CallQueue(asio::any_io_executor loop)
    : loop_(std::move(loop)), thread_([this] { Run(); }) {}

CallQueue::~CallQueue() {
  queue_.Shutdown();
  thread_.join();
}

void CallQueue::Run() {
  heard_.reserve(kBurst);
  void* tag = nullptr;
  bool ok = false;
  while (queue_.Next(&tag, &ok)) {
    Handle(tag, ok);
    // The loop is woken once for all that is there.
    const gpr_timespec past = gpr_time_0(GPR_CLOCK_REALTIME);
    for (int i = 1; i < kBurst && queue_.AsyncNext(&tag, &ok, past) == queue_.GOT_EVENT; ++i) {
      Handle(tag, ok);
    }
    Tell();
  }
}

void CallQueue::Handle(void* tag, bool ok) {
  auto* const operation = static_cast<Operation*>(tag);
  std::shared_ptr<Operation> self = std::move(operation->self_);
  if (Insist([&] { return operation->Proceed(ok); })) heard_.push_back(std::move(self));
}

void CallQueue::Tell() {
  if (heard_.empty()) return;
  const bool first = Insist([this] {
    const MutexLock lock(&mutex_);
    const size_t size = news_.size() + heard_.size();
    if (size > news_.capacity()) news_.reserve(2 * size);
    const bool was_empty = news_.empty();
    news_.insert(news_.end(), std::make_move_iterator(heard_.begin()),
                 std::make_move_iterator(heard_.end()));
    return was_empty;
  });
  heard_.clear();
  if (first) Insist([this] { asio::post(loop_, [this] { OnNews(); }); });
}

void CallQueue::OnNews() {
  told_.clear();  // if one of them threw the last time
  {
    const MutexLock lock(&mutex_);
    told_.swap(news_);
  }
  for (const auto& operation : told_) operation->OnNews();
  told_.clear();
}

}  // namespace tvq::gateway
