#ifndef TVQ_CLIENT_GATEWAY_UPSTREAM_UPLOAD_CALL_H_
#define TVQ_CLIENT_GATEWAY_UPSTREAM_UPLOAD_CALL_H_

#include <grpcpp/support/async_stream.h>

#include <boost/asio/awaitable.hpp>
#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "client/gateway/http/signal.h"
#include "client/gateway/upstream/call.h"
#include "client/gateway/upstream/call_queue.h"

namespace tvq::gateway {

// A call that sends messages one after the other and gets one answer. For the loop's thread;
// what starts it cancels it or waits for its end with Finish.
template <typename Request, typename Response>
class UploadCall final : public CallQueue::Operation {
  using Writer = grpc::ClientAsyncWriter<Request>;

 public:
  // `prepare` makes the call: (context, response) -> std::unique_ptr<Writer>.
  template <typename Prepare>
  static std::shared_ptr<UploadCall> Start(const CallHeaders& headers,
                                           asio::any_io_executor executor, const Prepare& prepare) {
    std::shared_ptr<UploadCall> call(new UploadCall(headers, std::move(executor)));
    call->writer_ = prepare(call->context_.get(), &call->response_);
    call->writer_->StartCall(call->Tag());
    return call;
  }

  // One at a time. False: the call has ended; Finish tells how.
  asio::awaitable<bool> Write(Request request) {
    while (busy_) co_await changed_.Wait();  // until the call has begun
    if (!ok_) co_return false;
    busy_ = true;
    writer_->Write(request, Tag());
    request = {};  // gRPC has its bytes
    while (busy_) co_await changed_.Wait();
    co_return ok_;
  }

  // No more writes.
  asio::awaitable<absl::StatusOr<Response>> Finish() {
    while (busy_) co_await changed_.Wait();
    if (ok_) {
      busy_ = true;
      writer_->WritesDone(Tag());
    }
    while (busy_) co_await changed_.Wait();
    busy_ = true;
    writer_->Finish(&status_, Tag());
    while (busy_) co_await changed_.Wait();
    absl::Status ended = context_.Ended(status_);
    if (!ended.ok()) co_return ended;
    co_return std::move(response_);
  }

  // Nothing happens to a call that has ended.
  void Cancel() { context_.Cancel(); }

 private:
  UploadCall(const CallHeaders& headers, asio::any_io_executor executor)
      : context_(headers), changed_(std::move(executor)) {}

  bool Proceed(bool ok) override {
    ok_ = ok;
    return true;
  }
  void OnNews() override {
    busy_ = false;
    changed_.Wake();
  }

  const OpenCalls open_;
  CallContext context_;
  std::unique_ptr<Writer> writer_;
  Response response_;
  grpc::Status status_;
  Signal changed_;
  bool busy_ = true;  // gRPC has been asked for something
  bool ok_ = false;   // what it was asked for last; not while it is busy
};

}  // namespace tvq::gateway

#endif  // TVQ_CLIENT_GATEWAY_UPSTREAM_UPLOAD_CALL_H_
