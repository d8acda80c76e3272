#include "server/rpc/transport/stream_writer.h"

#include <grpc/support/time.h>

#include <utility>

namespace tvq {

StreamWriter::StreamWriter(std::unique_ptr<grpc::ServerCompletionQueue> queue)
    : queue_(std::move(queue)) {}

StreamWriter::~StreamWriter() = default;

void StreamWriter::Start() {
  thread_ = std::thread([this] { Run(); });
}

void StreamWriter::Stop() {
  {
    absl::MutexLock lock(&mutex_);
    if (std::exchange(stopped_, true)) return;
  }
  queue_->Shutdown();
  thread_.join();
}

void StreamWriter::Add(std::function<void()> task) {
  absl::MutexLock lock(&mutex_);
  if (!stopped_) tasks_.push_back(std::move(task));
}

void StreamWriter::Ring() {
  absl::MutexLock lock(&mutex_);
  if (tasks_.empty() || std::exchange(rung_, true)) return;
  alarm_.Set(queue_.get(), gpr_time_0(GPR_CLOCK_REALTIME), static_cast<QueueTag*>(&bell_));
}

void StreamWriter::Run() {
  void* tag = nullptr;
  bool ok = false;
  while (queue_->Next(&tag, &ok)) static_cast<QueueTag*>(tag)->Proceed(ok);
}

// Ends soon: a stream schedules nothing more while its write is under way.
void StreamWriter::RunTasks() {
  std::vector<std::function<void()>> tasks;
  while (true) {
    {
      absl::MutexLock lock(&mutex_);
      tasks_.swap(tasks);
      if (tasks.empty()) {
        rung_ = false;
        return;
      }
    }
    for (const std::function<void()>& task : tasks) task();
    tasks.clear();
  }
}

}  // namespace tvq
