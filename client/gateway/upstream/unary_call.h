#ifndef TVQ_CLIENT_GATEWAY_UPSTREAM_UNARY_CALL_H_
#define TVQ_CLIENT_GATEWAY_UPSTREAM_UNARY_CALL_H_

#include <grpcpp/support/async_unary_call.h>

#include <boost/asio/awaitable.hpp>
#include <memory>
#include <type_traits>
#include <utility>

#include "absl/status/statusor.h"
#include "client/gateway/http/exchange.h"
#include "client/gateway/http/signal.h"
#include "client/gateway/upstream/call.h"
#include "client/gateway/upstream/call_queue.h"
#include "client/gateway/upstream/channel.h"

namespace tvq::gateway {

// What has been asked once, and its answer; for the loop's thread.
template <typename Response>
class Question final : public CallQueue::Operation {
 public:
  // `changed`, which may be that of other questions too, is notified when the answer has come.
  Question(const CallHeaders& headers, std::shared_ptr<Signal> changed)
      : context_(headers), changed_(std::move(changed)) {}
  Question(const CallHeaders& headers, asio::any_io_executor executor)
      : Question(headers, std::make_shared<Signal>(std::move(executor))) {}

  // `prepare` makes the call: context -> std::unique_ptr<grpc::ClientAsyncResponseReader>
  template <typename Prepare>
  void Start(const Prepare& prepare) {
    reader_ = prepare(context_.get());
    reader_->StartCall();
    reader_->Finish(&response_, &status_, Tag());
  }

  bool done() const { return done_; }
  // When done, once.
  absl::StatusOr<Response> Take() {
    absl::Status ended = context_.Ended(status_);
    if (!ended.ok()) return ended;
    return std::move(response_);
  }

  // Waits for it; of a question whose signal is its own.
  asio::awaitable<absl::StatusOr<Response>> Answer() {
    while (!done_) co_await changed_->Wait();
    co_return Take();
  }

  void Cancel() { context_.Cancel(); }

 private:
  bool Proceed(bool) override { return true; }
  void OnNews() override {
    done_ = true;
    changed_->Wake();
  }

  const OpenCalls open_;
  CallContext context_;
  std::unique_ptr<grpc::ClientAsyncResponseReader<Response>> reader_;
  Response response_;
  grpc::Status status_;
  bool done_ = false;
  const std::shared_ptr<Signal> changed_;
};

// On behalf of an exchange whose hang-up cancels the call.
template <typename Response, typename Prepare>
asio::awaitable<absl::StatusOr<Response>> Ask(Exchange& exchange, CallHeaders headers,
                                              Prepare prepare) {
  const auto question = std::make_shared<Question<Response>>(headers, exchange.executor());
  question->Start(prepare);
  exchange.OnHangUp([question] { question->Cancel(); });
  absl::StatusOr<Response> answer = co_await question->Answer();
  co_return answer;
}

// Asks with `method`, PrepareAsync... of one of the stubs.
template <typename Request, typename Response, typename Stub>
asio::awaitable<absl::StatusOr<Response>> Unary(
    Exchange& exchange, CallHeaders headers, const Stubs& stubs,
    std::unique_ptr<grpc::ClientAsyncResponseReader<Response>> (Stub::*method)(
        grpc::ClientContext*, const Request&, grpc::CompletionQueue*),
    std::type_identity_t<Request> request) {
  const auto prepare = [&stubs, method, &request](grpc::ClientContext* context) {
    return (stubs.Get<Stub>().*method)(context, request, stubs.queue);
  };
  absl::StatusOr<Response> answer = co_await Ask<Response>(exchange, std::move(headers), prepare);
  co_return answer;
}

}  // namespace tvq::gateway

#endif  // TVQ_CLIENT_GATEWAY_UPSTREAM_UNARY_CALL_H_
