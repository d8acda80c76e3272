#include "client/gateway/upstream/call_queue.h"

#include <grpc/support/time.h>

#include <boost/asio/post.hpp>
#include <iterator>
#include <utility>

namespace tvq::gateway {
namespace {

// Events after which the loop hears of them, however many more there are.
constexpr int kBurst = 64;

}  // namespace

CallQueue::CallQueue(asio::any_io_executor loop)
    : loop_(std::move(loop)), thread_([this] { Run(); }) {}

CallQueue::~CallQueue() {
  queue_.Shutdown();
  thread_.join();
}

void CallQueue::Run() {
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
  if (operation->Proceed(ok)) heard_.push_back(std::move(self));
}

void CallQueue::Tell() {
  if (heard_.empty()) return;
  bool first = false;
  {
    absl::MutexLock lock(&mutex_);
    first = news_.empty();
    news_.insert(news_.end(), std::make_move_iterator(heard_.begin()),
                 std::make_move_iterator(heard_.end()));
  }
  heard_.clear();
  if (first) asio::post(loop_, [this] { OnNews(); });
}

void CallQueue::OnNews() {
  told_.clear();  // if one of them threw the last time
  {
    absl::MutexLock lock(&mutex_);
    told_.swap(news_);
  }
  for (const auto& operation : told_) operation->OnNews();
  told_.clear();
}

}  // namespace tvq::gateway
