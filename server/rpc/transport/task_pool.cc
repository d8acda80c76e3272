#include "server/rpc/transport/task_pool.h"

#include <tuple>
#include <utility>

namespace tvq {

TaskPool::TaskPool(const Options& options)
    : options_(options), turns_(options.order, options.most_of_owner) {
  for (int i = 0; i < options.threads; ++i) {
    threads_.emplace_back([this] { Loop(/*short_only=*/false); });
  }
  if (options.short_bytes > 0) threads_.emplace_back([this] { Loop(/*short_only=*/true); });
}

TaskPool::~TaskPool() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  for (std::thread& thread : threads_) thread.join();
}

void TaskPool::Schedule(const std::string& owner, std::function<void()> task, size_t bytes) {
  absl::MutexLock lock(&mutex_);
  turns_.Add(owner, bytes, /*is_short=*/false, {.run = std::move(task)});
}

absl::Status TaskPool::TrySchedule(const std::string& owner, size_t bytes,
                                   std::function<void()> task) {
  ByteQuota::Share share(options_.bytes, owner);
  if (auto status = share.Add(static_cast<int64_t>(bytes)); !status.ok()) return status;
  absl::MutexLock lock(&mutex_);
  turns_.Add(owner, bytes, bytes <= options_.short_bytes,
             {.share = std::move(share), .run = std::move(task)});
  return absl::OkStatus();
}

void TaskPool::Loop(bool short_only) {
  const auto ready = [this, short_only]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return turns_.MayBegin(short_only) || (stopping_ && turns_.empty(short_only));
  };
  while (true) {
    const std::string* owner = nullptr;
    Task task;
    {
      absl::MutexLock lock(&mutex_);
      mutex_.Await(absl::Condition(&ready));
      if (!turns_.MayBegin(short_only)) return;
      std::tie(owner, task) = turns_.Begin(short_only);
    }
    task.run();
    task.run = nullptr;  // before its bytes are given back
    task.share = {};
    absl::MutexLock lock(&mutex_);
    turns_.End(owner);
  }
}

}  // namespace tvq
