#include "server/rpc/transport/queued_method.h"

#include <utility>

namespace tvq {

QueuedMethod::QueuedMethod(StreamWriter* writer, Request request, Begin begin)
    : writer_(writer), request_(std::move(request)), begin_(std::move(begin)) {
  absl::MutexLock lock(&mutex_);
  RequestNext();
}

void QueuedMethod::RequestNext() {
  next_ = std::make_unique<QueuedRpc>(writer_);
  request_(next_.get(), static_cast<QueueTag*>(this));
}

// A server that is shut down answers a request at once, with not `ok`.
void QueuedMethod::Proceed(bool ok) {
  std::unique_ptr<QueuedRpc> come;
  {
    absl::MutexLock lock(&mutex_);
    come = std::move(next_);
    if (ok) RequestNext();
  }
  if (ok) begin_(std::move(come));
}

void QueuedMethod::WaitForLast() {
  const auto none = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return next_ == nullptr; };
  absl::MutexLock lock(&mutex_);
  mutex_.Await(absl::Condition(&none));
}

}  // namespace tvq
