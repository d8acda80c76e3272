#include "server/rpc/calls/engine_call.h"

#include <cstdint>
#include <string>

#include "base/refusal.h"
#include "server/rpc/wire/convert.h"

namespace tvq {
namespace {

// The same refusal, but never to be retried: an idle server would have no room for it either.
absl::Status Hopeless(const absl::Status& status) {
  Refusal refusal = RefusalOf(status);
  refusal.retry = Retry::kNever;
  return WithRefusal(refusal, MessageOf(status));
}

bool UsesPrefixes(Purpose purpose) {
  return purpose == Purpose::kGenerate || purpose == Purpose::kAppend;
}

}  // namespace

absl::Status EngineCall::Submit(Request request) {
  Engine& engine = *context().engine;
  request.id = caller().request_id;
  request.owner = caller().owner;
  request.owner_limits = caller().limits;
  request.deadline = ToSteady(rpc().context.deadline());
  request.sink = Held(this);
  if (context().sessions != nullptr && UsesPrefixes(request.purpose)) {
    context().sessions->UsePrefixes(&request);
  }
  request.owner = caller().sharer;
  const std::string model = request.model;
  const int64_t sequences = Sequences(request);
  const int64_t tokens = MostTokens(request);
  const absl::StatusOr<RequestHandle> handle = engine.Submit(std::move(request));
  if (!handle.ok()) {
    const absl::StatusOr<ModelCapacity> capacity = engine.Capacity(model, tokens);
    return capacity.ok() && sequences <= capacity->max_sessions ? handle.status()
                                                                : Hopeless(handle.status());
  }
  bool cancelled;
  {
    const MutexLock lock(&mutex_);
    handle_ = *handle;
    cancelled = cancelled_;
  }
  if (cancelled) engine.Cancel(*handle);
  return absl::OkStatus();
}

void EngineCall::CancelRequest() {
  RequestHandle handle;
  {
    const MutexLock lock(&mutex_);
    cancelled_ = true;
    handle = handle_;
  }
  if (handle != 0) context().engine->Cancel(handle);
}

}  // namespace tvq
