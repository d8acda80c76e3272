#ifndef TVQ_CLIENT_GATEWAY_UPSTREAM_UPLOAD_CALL_H_
#define TVQ_CLIENT_GATEWAY_UPSTREAM_UPLOAD_CALL_H_

#include <grpcpp/support/client_callback.h>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/post.hpp>
#include <functional>
#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "client/cpp/grpc_call.h"
#include "client/gateway/http/signal.h"
#include "client/gateway/upstream/call.h"

namespace tvq::gateway {

// A call that sends messages one after the other and gets one answer. All but the reactions is for
// the loop's thread, and so is what they post to it. Owns itself until gRPC is done with it.
template <typename Request, typename Response>
class UploadCall final : public grpc::ClientWriteReactor<Request>,
                         public std::enable_shared_from_this<UploadCall<Request, Response>> {
 public:
  // `start` begins the call: (context, response, reactor).
  static std::shared_ptr<UploadCall> Start(
      const CallHeaders& headers, asio::any_io_executor executor,
      const std::function<void(grpc::ClientContext*, Response*, UploadCall*)>& start) {
    std::shared_ptr<UploadCall> call(new UploadCall(std::move(executor)));
    headers.Apply(&call->context_);
    call->self_ = call;
    start(&call->context_, &call->response_, call.get());
    call->AddHold();  // until Finish: writes are started outside of reactions
    call->StartCall();
    return call;
  }

  // One at a time. False: the call has ended; Finish tells how.
  asio::awaitable<bool> Write(Request request) {
    request_ = std::move(request);
    writing_ = true;
    this->StartWrite(&request_);
    while (writing_) co_await changed_.Wait();
    co_return written_;
  }

  // No more writes. The caller keeps the call until it has returned.
  asio::awaitable<absl::StatusOr<Response>> Finish() {
    if (!std::exchange(finishing_, true)) {
      this->StartWritesDone();
      this->RemoveHold();
    }
    while (!done_) co_await changed_.Wait();
    if (!status_.ok()) co_return status_;
    co_return std::move(response_);
  }

  // Whoever cancels calls Abandon or Finish, too.
  void Cancel() { context_.TryCancel(); }
  void Abandon() {
    if (std::exchange(finishing_, true)) return;
    context_.TryCancel();
    this->RemoveHold();
  }

  void OnWriteDone(bool ok) override {
    Post([self = this->shared_from_this(), ok] {
      self->writing_ = false;
      self->written_ = ok;
    });
  }

  void OnDone(const grpc::Status& status) override {
    Post([self = std::move(self_), status = client::FromGrpc(status, context_)] {
      self->status_ = status;
      self->done_ = true;
    });
  }

 private:
  explicit UploadCall(asio::any_io_executor executor) : changed_(std::move(executor)) {}

  template <typename Change>
  void Post(Change change) {
    asio::post(changed_.executor(), [self = this->shared_from_this(), change = std::move(change)] {
      change();
      self->changed_.Notify();
    });
  }

  const OpenCalls open_;
  grpc::ClientContext context_;
  std::shared_ptr<UploadCall> self_;
  Request request_;  // being written
  Response response_;
  Signal changed_;
  bool writing_ = false;
  bool written_ = false;
  bool finishing_ = false;
  bool done_ = false;
  absl::Status status_;
};

}  // namespace tvq::gateway

#endif  // TVQ_CLIENT_GATEWAY_UPSTREAM_UPLOAD_CALL_H_
