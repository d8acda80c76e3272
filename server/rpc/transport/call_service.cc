#include "server/rpc/transport/call_service.h"

#include <iterator>
#include <utility>

namespace tvq {

// Of one method, the service's `index`th, and one thread.
class CallService::Taker final : public QueueTag {
 public:
  Taker(CallService* service, int index, CallThread* thread)
      : service_(service), index_(index), method_(service->methods_[index]), thread_(thread) {
    RequestNext();
  }

  // A server that is shut down answers a request at once, with not `ok`.
  void Proceed(bool ok) override {
    if (!ok) return thread_->EndCall();
    std::unique_ptr<Rpc> come = std::move(next_);
    RequestNext();
    method_.begin(std::move(come));
  }

 private:
  void RequestNext() {
    thread_->BeginCall();
    next_ = std::make_unique<Rpc>(thread_);
    grpc::ServerCompletionQueue* const queue = thread_->queue();
    QueueTag* const tag = this;
    if (method_.requests == Requests::kOne) {
      service_->RequestAsyncServerStreaming(index_, &next_->context, &next_->request,
                                            &next_->stream, queue, queue, tag);
    } else {
      service_->RequestAsyncBidiStreaming(index_, &next_->context, &next_->stream, queue, queue,
                                          tag);
    }
  }

  CallService* const service_;
  const int index_;
  const Method& method_;
  CallThread* const thread_;
  std::unique_ptr<Rpc> next_;  // gRPC's, until it brings the tag
};

CallService::CallService() = default;
CallService::~CallService() = default;

void CallService::Add(std::string path, Requests requests, Begin begin) {
  // One answer is a stream that ends with its first message.
  const auto type = requests == Requests::kOne ? grpc::internal::RpcMethod::SERVER_STREAMING
                                               : grpc::internal::RpcMethod::BIDI_STREAMING;
  const char* const name =
      methods_.emplace_back(std::move(path), requests, std::move(begin)).path.c_str();
  AddMethod(new grpc::internal::RpcServiceMethod(name, type, /*handler=*/nullptr));
  MarkMethodAsync(static_cast<int>(methods_.size()) - 1);
}

void CallService::Take(CallThread* thread) {
  for (int index = 0; index < std::ssize(methods_); ++index) {
    takers_.push_back(std::make_unique<Taker>(this, index, thread));
  }
}

}  // namespace tvq
