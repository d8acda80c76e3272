#ifndef TVQ_SERVER_RPC_TRANSPORT_STREAM_WRITER_H_
#define TVQ_SERVER_RPC_TRANSPORT_STREAM_WRITER_H_

#include <grpcpp/alarm.h>
#include <grpcpp/completion_queue.h>

#include <functional>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace tvq {

// What the queue of a writer brings back, on the writer's thread. Operations get it as a
// QueueTag*.
class QueueTag {
 public:
  virtual void Proceed(bool ok) = 0;

 protected:
  ~QueueTag() = default;
};

// A thread with a completion queue. It runs what is scheduled, and what gRPC has to tell of the
// operations on its queue. So writes end on one thread and all but a first token's begin there; it
// is woken once for all that a step of the engine brings.
class StreamWriter {
 public:
  // Of a server's builder; the server must start, or fail to, before Start.
  explicit StreamWriter(std::unique_ptr<grpc::ServerCompletionQueue> queue);
  ~StreamWriter();  // after Stop
  StreamWriter(const StreamWriter&) = delete;
  StreamWriter& operator=(const StreamWriter&) = delete;

  void Start();
  // When no operation is under way on the queue, nor will be again. What is scheduled from then on
  // is dropped. Once more does nothing.
  void Stop();

  grpc::ServerCompletionQueue* queue() { return queue_.get(); }

  // Any thread. Short tasks only: all streams of the writer wait for them. They run in order.
  void Schedule(std::function<void()> task) {
    Add(std::move(task));
    Ring();
  }
  // In two parts, of which the second is for all that was added.
  void Add(std::function<void()> task);
  void Ring();

 private:
  class Bell final : public QueueTag {
   public:
    explicit Bell(StreamWriter* writer) : writer_(writer) {}
    void Proceed(bool) override { writer_->RunTasks(); }

   private:
    StreamWriter* const writer_;
  };

  void Run();
  void RunTasks();

  const std::unique_ptr<grpc::ServerCompletionQueue> queue_;
  Bell bell_{this};
  std::thread thread_;

  absl::Mutex mutex_;
  grpc::Alarm alarm_ ABSL_GUARDED_BY(mutex_);  // brings the bell through the queue, at once
  bool rung_ ABSL_GUARDED_BY(mutex_) = false;  // until RunTasks has found nothing more
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::function<void()>> tasks_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tvq

#endif  // TVQ_SERVER_RPC_TRANSPORT_STREAM_WRITER_H_
