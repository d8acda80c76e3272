#include "server/rpc/calls/engine_request.h"

#include <cstdint>
#include <string>
#include <utility>

#include "base/refusal.h"
#include "server/rpc/wire/convert.h"

namespace tvq {
namespace {

// Of what an idle server would have no room for either.
absl::Status Hopeless(const absl::Status& status) {
  Refusal refusal = RefusalOf(status);
  refusal.retry = Retry::kNever;
  return WithRefusal(refusal, MessageOf(status));
}

}  // namespace

absl::Status EngineRequest::Submit(Request request, const Caller& caller,
                                   std::shared_ptr<RequestSink> sink, grpc::ServerContextBase* rpc,
                                   SessionStore* prefixes) {
  request.id = caller.request_id;
  request.owner = caller.owner;
  request.owner_limits = caller.limits;
  request.deadline = ToSteady(rpc->deadline());
  request.sink = std::move(sink);
  if (prefixes != nullptr) prefixes->UsePrefixes(&request);
  request.owner = caller.sharer;
  const std::string model = request.model;
  const int64_t sequences = Sequences(request);
  const int64_t tokens = MostTokens(request);
  const absl::StatusOr<RequestHandle> handle = engine_->Submit(std::move(request));
  if (!handle.ok()) {
    const absl::StatusOr<ModelCapacity> capacity = engine_->Capacity(model, tokens);
    return capacity.ok() && sequences <= capacity->max_sessions ? handle.status()
                                                                : Hopeless(handle.status());
  }
  bool cancelled;
  {
    absl::MutexLock lock(&mutex_);
    handle_ = *handle;
    cancelled = cancelled_;
  }
  if (cancelled) engine_->Cancel(*handle);
  return absl::OkStatus();
}

void EngineRequest::Cancel() {
  RequestHandle handle;
  {
    absl::MutexLock lock(&mutex_);
    cancelled_ = true;
    handle = handle_;
  }
  if (handle != 0) engine_->Cancel(handle);
}

}  // namespace tvq
