#ifndef TVQ_CLIENT_GATEWAY_UPSTREAM_READ_CALL_H_
#define TVQ_CLIENT_GATEWAY_UPSTREAM_READ_CALL_H_

#include <grpcpp/support/async_stream.h>

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "base/mutex.h"
#include "client/gateway/http/signal.h"
#include "client/gateway/upstream/call.h"
#include "client/gateway/upstream/call_queue.h"

namespace tvq::gateway {

// A call that streams messages to the loop. When `limit` of them wait there, or kBytesAhead, it
// reads no further, so that flow control reaches the server.
//
// For the loop's thread; what starts it cancels it or waits until it is done.
template <typename Response>
class ReadCall final : public CallQueue::Operation {
  using Reader = grpc::ClientAsyncReader<Response>;

 public:
  static constexpr size_t kBytesAhead = size_t{64} << 10;

  // `prepare` makes the call: context -> std::unique_ptr<Reader>. `changed` is notified when
  // something is to be taken, or the head of the response has come, or the call has ended.
  template <typename Prepare>
  static std::shared_ptr<ReadCall> Start(const CallHeaders& headers,
                                         std::shared_ptr<Signal> changed, size_t limit,
                                         const Prepare& prepare) {
    std::shared_ptr<ReadCall> call(new ReadCall(headers, std::move(changed), limit));
    call->reader_ = prepare(call->context_.get());
    call->reader_->StartCall(call->Tag());
    return call;
  }

  struct State {
    bool head = false;  // of the response; it has come
    bool done = false;
  };

  // Moves to `messages`, which is empty, what has come. Done: there will be no more.
  State Take(std::vector<Response>* messages) {
    State state;
    bool resume = false;
    {
      const MutexLock lock(&mutex_);
      messages->swap(ready_);
      ready_bytes_ = 0;
      resume = std::exchange(paused_, false);
      notified_ = false;
      state = state_;
    }
    if (resume) Read();
    return state;
  }

  // What has come stays for Take; news is told again.
  State Look() {
    const MutexLock lock(&mutex_);
    notified_ = false;
    return state_;
  }

  bool done() const {
    const MutexLock lock(&mutex_);
    return state_.done;
  }
  // When done.
  absl::Status status() const {
    const MutexLock lock(&mutex_);
    return status_;
  }

  // It is done soon.
  void Cancel() {
    context_.Cancel();
    bool resume = false;
    {
      const MutexLock lock(&mutex_);
      cancelled_ = true;
      resume = std::exchange(paused_, false);
    }
    if (resume) Read();
  }

 private:
  enum class Step { kStart, kHead, kRead, kFinish };

  ReadCall(const CallHeaders& headers, std::shared_ptr<Signal> changed, size_t limit)
      : context_(headers), changed_(std::move(changed)), limit_(limit) {}

  bool Proceed(bool ok) override {
    if (step_ == Step::kFinish) return End();
    if (!ok) {
      step_ = Step::kFinish;
      reader_->Finish(&grpc_status_, Tag());
      return false;
    }
    if (step_ == Step::kStart) {
      step_ = Step::kHead;
      reader_->ReadInitialMetadata(Tag());
      return false;
    }
    const bool is_message = std::exchange(step_, Step::kRead) == Step::kRead;
    bool read = true, news = false;
    {
      const MutexLock lock(&mutex_);
      if (is_message && !cancelled_) {
        ready_bytes_ += message_.ByteSizeLong();
        ready_.push_back(std::move(message_));
        paused_ = ready_.size() >= limit_ || ready_bytes_ >= kBytesAhead;
        read = !paused_;
      }
      // An error without any message has no head, but gRPC gives an empty one.
      state_.head =
          state_.head || is_message || !context_.get()->GetServerInitialMetadata().empty();
      news = state_.head && !std::exchange(notified_, true);
    }
    if (read) Read();
    return news;
  }
  bool End() {
    const MutexLock lock(&mutex_);
    status_ = context_.Ended(grpc_status_, state_.head);
    state_.done = true;
    return true;
  }
  void OnNews() override { changed_->Wake(); }

  // By either thread, when it is not read and not finished.
  void Read() {
    message_.Clear();
    reader_->Read(&message_, Tag());
  }

  const OpenCalls open_;
  CallContext context_;
  const std::shared_ptr<Signal> changed_;
  const size_t limit_;
  std::unique_ptr<Reader> reader_;
  Step step_ = Step::kStart;
  Response message_;  // being read
  grpc::Status grpc_status_;
  mutable Mutex mutex_;
  std::vector<Response> ready_ ABSL_GUARDED_BY(mutex_);
  size_t ready_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  bool notified_ ABSL_GUARDED_BY(mutex_) = false;  // and not taken since
  bool paused_ ABSL_GUARDED_BY(mutex_) = false;
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
  State state_ ABSL_GUARDED_BY(mutex_);
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tvq::gateway

#endif  // TVQ_CLIENT_GATEWAY_UPSTREAM_READ_CALL_H_
