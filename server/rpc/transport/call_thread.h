#ifndef TVQ_SERVER_RPC_TRANSPORT_CALL_THREAD_H_
#define TVQ_SERVER_RPC_TRANSPORT_CALL_THREAD_H_

#include <grpcpp/alarm.h>
#include <grpcpp/completion_queue.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "base/mutex.h"

namespace tvq {

// What a completion queue brings back, on its thread. Operations get it as a QueueTag*.
class QueueTag {
 public:
  virtual void Proceed(bool ok) = 0;

 protected:
  ~QueueTag() = default;
};

// A thread with a completion queue. It runs what is scheduled, and gRPC's events of the calls on
// its queue. So all writes of a stream end on this thread, and all begin there except that of the
// first token. A step of the engine wakes it once for all that it brings.
class CallThread {
 public:
  // Of a server's builder; the server must start, or fail to, before Start.
  explicit CallThread(std::unique_ptr<grpc::ServerCompletionQueue> queue);
  ~CallThread();  // after Stop
  CallThread(const CallThread&) = delete;
  CallThread& operator=(const CallThread&) = delete;

  void Start();
  // When the server was shut down: returns when gRPC is done with every call on the queue. What is
  // scheduled from then on is dropped. Once more does nothing.
  void Stop();

  grpc::ServerCompletionQueue* queue() { return queue_.get(); }

  // Any thread. Short tasks only: all calls of the thread wait for them. They run in order.
  void Schedule(std::function<void()> task) {
    Add(std::move(task));
    Ring();
  }
  // In two parts, of which the second is for all that was added.
  void Add(std::function<void()> task);
  void Ring();

  // A call uses the queue: from when it is asked for until gRPC is done with it.
  void BeginCall();
  void EndCall();

 private:
  class Bell final : public QueueTag {
   public:
    explicit Bell(CallThread* thread) : thread_(thread) {}
    void Proceed(bool) override { thread_->RunTasks(); }

   private:
    CallThread* const thread_;
  };

  void Run();
  void RunTasks();

  const std::unique_ptr<grpc::ServerCompletionQueue> queue_;
  Bell bell_{this};
  std::thread thread_;

  Mutex mutex_;
  grpc::Alarm alarm_ ABSL_GUARDED_BY(mutex_);  // brings the bell through the queue, at once
  bool rung_ ABSL_GUARDED_BY(mutex_) = false;  // until RunTasks has found nothing more
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  int64_t calls_ ABSL_GUARDED_BY(mutex_) = 0;
  Changed idle_;  // there are no calls
  std::vector<std::function<void()>> tasks_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tvq

#endif  // TVQ_SERVER_RPC_TRANSPORT_CALL_THREAD_H_
