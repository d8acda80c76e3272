#include "client/gateway/api/side_threads.h"

#include <tuple>
#include <utility>

namespace tvq::gateway {

SideThreads::SideThreads(int threads) {
  for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { Loop(); });
}

SideThreads::~SideThreads() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  for (std::thread& thread : threads_) thread.join();
}

void SideThreads::Schedule(std::shared_ptr<Peer> peer, size_t bytes,
                           absl::AnyInvocable<void()> task) {
  absl::MutexLock lock(&mutex_);
  turns_.Add(peer, bytes, /*is_short=*/false, std::move(task));
}

void SideThreads::Loop() {
  const auto ready = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return stopping_ || turns_.MayBegin(/*short_only=*/false);
  };
  while (true) {
    const std::shared_ptr<Peer>* peer = nullptr;
    absl::AnyInvocable<void()> run;
    {
      absl::MutexLock lock(&mutex_);
      mutex_.Await(absl::Condition(&ready));
      if (!turns_.MayBegin(/*short_only=*/false)) return;
      std::tie(peer, run) = turns_.Begin(/*short_only=*/false);
    }
    run();
    run = nullptr;
    absl::MutexLock lock(&mutex_);
    turns_.End(peer);
  }
}

}  // namespace tvq::gateway
