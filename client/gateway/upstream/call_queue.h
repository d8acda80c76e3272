#ifndef TVQ_CLIENT_GATEWAY_UPSTREAM_CALL_QUEUE_H_
#define TVQ_CLIENT_GATEWAY_UPSTREAM_CALL_QUEUE_H_

#include <grpcpp/completion_queue.h>

#include <boost/asio/any_io_executor.hpp>
#include <memory>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "base/mutex.h"

namespace tvq::gateway {

namespace asio = boost::asio;

// Brings to the loop what gRPC has for its calls, with one thread that waits for gRPC.
//
// gRPC's own threads for callbacks, two at least, wake one another at every event, and sleep 100 ms
// after a second without any. As soon as one call of a process uses them they compete for the
// sockets: all calls go through here.
class CallQueue {
 public:
  // A call, or whatever else asks gRPC for one thing at a time.
  class Operation : public std::enable_shared_from_this<Operation> {
   public:
    virtual ~Operation() = default;

   protected:
    // The tag with which gRPC is asked for the next thing; keeps this until it is there.
    void* Tag() {
      self_ = shared_from_this();
      return this;
    }

   private:
    friend class CallQueue;

    // On the queue's thread: what was asked for is there, or (not `ok`) will never be. May ask for
    // the next thing. True: OnNews is to be called. After std::bad_alloc, for which it has changed
    // nothing, it is called again.
    virtual bool Proceed(bool ok) = 0;
    // On the loop's thread.
    virtual void OnNews() = 0;

    std::shared_ptr<Operation> self_;  // while gRPC has the tag
  };

  // The loop outlives the queue.
  explicit CallQueue(asio::any_io_executor loop);
  // All operations have ended.
  ~CallQueue();
  CallQueue(const CallQueue&) = delete;

  grpc::CompletionQueue* grpc() { return &queue_; }

 private:
  using Operations = std::vector<std::shared_ptr<Operation>>;

  void Run();
  void Handle(void* tag, bool ok);
  void Tell();
  void OnNews();

  const asio::any_io_executor loop_;
  grpc::CompletionQueue queue_;
  Operations heard_;  // the thread's: those with news, of one burst
  Operations told_;   // the loop's
  Mutex mutex_;
  Operations news_ ABSL_GUARDED_BY(mutex_);  // not empty: OnNews will be called
  std::thread thread_;
};

}  // namespace tvq::gateway

#endif  // TVQ_CLIENT_GATEWAY_UPSTREAM_CALL_QUEUE_H_
