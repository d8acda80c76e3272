#ifndef TVQ_SERVER_RPC_TRANSPORT_QUEUED_METHOD_H_
#define TVQ_SERVER_RPC_TRANSPORT_QUEUED_METHOD_H_

#include <functional>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "server/rpc/transport/queued_stream.h"

namespace tvq {

// Takes the calls of a method that come over a writer's queue, and begins them on its thread.
class QueuedMethod final : public QueueTag {
 public:
  // Has gRPC fill `rpc` with the next call, and bring `tag` then.
  using Request = std::function<void(QueuedRpc* rpc, void* tag)>;
  using Begin = std::function<void(std::unique_ptr<QueuedRpc> rpc)>;

  // Takes the first call. When the server has started.
  QueuedMethod(StreamWriter* writer, Request request, Begin begin);

  // When the server was shut down: returns when the last call that it gave has begun.
  void WaitForLast();

  void Proceed(bool ok) override;

 private:
  void RequestNext() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  StreamWriter* const writer_;
  const Request request_;
  const Begin begin_;
  absl::Mutex mutex_;
  std::unique_ptr<QueuedRpc> next_ ABSL_GUARDED_BY(mutex_);  // null: gRPC gives no more
};

}  // namespace tvq

#endif  // TVQ_SERVER_RPC_TRANSPORT_QUEUED_METHOD_H_
