#ifndef TVQ_CLIENT_GATEWAY_UPSTREAM_READ_CALL_H_
#define TVQ_CLIENT_GATEWAY_UPSTREAM_READ_CALL_H_

#include <grpcpp/support/client_callback.h>

#include <boost/asio/post.hpp>
#include <cstddef>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "client/cpp/grpc_call.h"
#include "client/gateway/http/signal.h"
#include "client/gateway/upstream/call.h"

namespace tvq::gateway {

// A call that streams messages to the loop. When `limit` of them wait there, it reads no further,
// so that flow control reaches the server.
//
// gRPC's threads call the reactions, all else is for the loop's thread. It owns itself until gRPC
// is done with it.
template <typename Response>
class ReadCall final : public grpc::ClientReadReactor<Response>,
                       public std::enable_shared_from_this<ReadCall<Response>> {
 public:
  // `start` begins the call: (context, reactor). `changed` is notified when something is to be
  // taken, or the head of the response has come, or the call has ended.
  static std::shared_ptr<ReadCall> Start(
      const CallHeaders& headers, std::shared_ptr<Signal> changed, size_t limit,
      const std::function<void(grpc::ClientContext*, ReadCall*)>& start) {
    std::shared_ptr<ReadCall> call(new ReadCall(std::move(changed), limit));
    headers.Apply(&call->context_);
    call->self_ = call;
    start(&call->context_, call.get());
    call->AddHold();  // reads may be started outside of reactions
    call->StartRead(&call->message_);
    call->StartCall();
    return call;
  }

  // Moves to `messages`, which is empty, what has come.
  void Take(std::vector<Response>* messages) {
    bool resume = false;
    {
      absl::MutexLock lock(&mutex_);
      messages->swap(ready_);
      resume = std::exchange(paused_, false);
      notified_ = false;
    }
    if (resume) this->StartRead(&message_);
  }

  bool has_head() const {
    absl::MutexLock lock(&mutex_);
    return head_;
  }
  // After it was true, what Take gives is the last.
  bool done() const {
    absl::MutexLock lock(&mutex_);
    return done_;
  }
  // When done.
  absl::Status status() const {
    absl::MutexLock lock(&mutex_);
    return status_;
  }

  void Cancel() {
    context_.TryCancel();
    bool resume = false;
    {
      absl::MutexLock lock(&mutex_);
      cancelled_ = true;
      resume = std::exchange(paused_, false);
    }
    if (resume) this->StartRead(&message_);
  }

  void OnReadInitialMetadataDone(bool ok) override {
    if (!ok) return;
    absl::MutexLock lock(&mutex_);
    head_ = true;
    Notify();
  }

  void OnReadDone(bool ok) override {
    if (!ok) {
      this->RemoveHold();
      return;
    }
    bool more = true;
    {
      absl::MutexLock lock(&mutex_);
      head_ = true;
      if (!cancelled_) {
        ready_.push_back(std::move(message_));
        paused_ = ready_.size() >= limit_;
        more = !paused_;
      }
      Notify();
    }
    message_.Clear();
    if (more) this->StartRead(&message_);
  }

  void OnDone(const grpc::Status& status) override {
    const std::shared_ptr<ReadCall> self = std::move(self_);
    absl::MutexLock lock(&mutex_);
    status_ = client::FromGrpc(status, context_);
    done_ = true;
    Notify();
  }

 private:
  ReadCall(std::shared_ptr<Signal> changed, size_t limit)
      : changed_(std::move(changed)), limit_(limit) {}

  void Notify() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (std::exchange(notified_, true) && !done_) return;
    asio::post(changed_->executor(), [changed = changed_] { changed->Notify(); });
  }

  const OpenCalls open_;
  const std::shared_ptr<Signal> changed_;
  const size_t limit_;
  grpc::ClientContext context_;
  std::shared_ptr<ReadCall> self_;
  Response message_;  // being read
  mutable absl::Mutex mutex_;
  std::vector<Response> ready_ ABSL_GUARDED_BY(mutex_);
  bool notified_ ABSL_GUARDED_BY(mutex_) = false;  // and not taken since
  bool paused_ ABSL_GUARDED_BY(mutex_) = false;
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
  bool head_ ABSL_GUARDED_BY(mutex_) = false;
  bool done_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tvq::gateway

#endif  // TVQ_CLIENT_GATEWAY_UPSTREAM_READ_CALL_H_
