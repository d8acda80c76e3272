#include "server/rpc/transport/task_pool.h"

#include <cstdint>
#include <utility>

namespace tvq {

TaskPool::TaskPool(const Options& options)
    : options_(options),
      threads_({.threads = options.threads,
                .most_of_owner = options.most_of_owner,
                .order = options.order,
                .short_thread = options.short_bytes > 0}) {}

void TaskPool::Schedule(const std::string& owner, std::function<void()> task, size_t bytes) {
  threads_.Schedule(owner, bytes, /*is_short=*/false, std::move(task));
}

absl::Status TaskPool::TrySchedule(const std::string& owner, size_t bytes,
                                   std::function<void()> task) {
  ByteQuota::Share share(options_.bytes, owner);
  if (auto status = share.Add(static_cast<int64_t>(bytes)); !status.ok()) return status;
  threads_.Schedule(owner, bytes, bytes <= options_.short_bytes,
                    [share = std::move(share), task = std::move(task)]() mutable {
                      task();
                      task = nullptr;  // before its bytes are given back
                      share = {};
                    });
  return absl::OkStatus();
}

}  // namespace tvq
