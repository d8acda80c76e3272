#include "server/rpc/transport/call_thread.h"

#include <grpc/support/time.h>

namespace tvq {

CallThread::CallThread(std::unique_ptr<grpc::ServerCompletionQueue> queue)
    : queue_(std::move(queue)) {}

CallThread::~CallThread() = default;

void CallThread::Start() {
  thread_ = std::thread([this] { Run(); });
}

void CallThread::Stop() {
  const auto idle = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return calls_ == 0; };
  {
    const MutexLock lock(&mutex_);
    idle_.Await(&mutex_, idle);
    if (std::exchange(stopped_, true)) return;
  }
  queue_->Shutdown();
  thread_.join();
}

void CallThread::Add(std::function<void()> task) {
  const MutexLock lock(&mutex_);
  if (!stopped_) tasks_.push_back(std::move(task));
}

void CallThread::Ring() {
  const MutexLock lock(&mutex_);
  if (stopped_ || tasks_.empty() || std::exchange(rung_, true)) return;
  alarm_.Set(queue_.get(), gpr_time_0(GPR_CLOCK_REALTIME), static_cast<QueueTag*>(&bell_));
}

void CallThread::BeginCall() {
  const MutexLock lock(&mutex_);
  ++calls_;
}

void CallThread::EndCall() {
  const MutexLock lock(&mutex_);
  if (--calls_ == 0) idle_.Notify();
}

void CallThread::Run() {
  void* tag = nullptr;
  bool ok = false;
  while (queue_->Next(&tag, &ok)) static_cast<QueueTag*>(tag)->Proceed(ok);
}

// Ends soon: a stream schedules nothing more while its write is under way.
void CallThread::RunTasks() {
  std::vector<std::function<void()>> tasks;
  while (true) {
    {
      const MutexLock lock(&mutex_);
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
