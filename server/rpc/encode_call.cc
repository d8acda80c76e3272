#include "server/rpc/encode_call.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "server/rpc/convert.h"
#include "server/rpc/status.h"
#include "server/rpc/wire.h"

namespace tvq {
namespace {

constexpr MethodInfo kEncode{"GenerationService/Encode", Permission::kGenerate};

// What a message of protobuf can hold, less what stands around the numbers.
constexpr int64_t kMostNumbers = (int64_t{1} << 29) - 1024;

}  // namespace

EncodeCall::EncodeCall(const CallContext& context, grpc::CallbackServerContext* rpc,
                       grpc::ByteBuffer* out)
    : context_(context), rpc_(rpc), out_(out), scope_(context, kEncode, rpc) {}

void EncodeCall::Begin(const grpc::ByteBuffer& in) {
  self_ = shared_from_this();
  if (const absl::Status admitted = scope_.Begin(); !admitted.ok()) {
    return Finish(scope_.End(admitted));
  }
  if (in.Length() <= kInlineRequestBytes) return Open(in);
  // The copy shares the bytes.
  const bool room = context_.workers->TrySchedule(
      in.Length(), [self = shared_from_this(), in] { self->Open(in); });
  if (room) return;
  AddRetryPushback(WorkersBusy(), /*fits_idle_server=*/true, rpc_);
  Refuse(WorkersBusy());
}

void EncodeCall::Open(const grpc::ByteBuffer& bytes) {
  if (rpc_->IsCancelled()) return Refuse(absl::CancelledError("the call was cancelled"));
  v1::EncodeRequest message;
  absl::Status status = ParseMessage(bytes, &message);
  if (status.ok()) status = Submit(message);
  if (!status.ok()) Refuse(status);
}

absl::Status EncodeCall::Submit(const v1::EncodeRequest& message) {
  const auto model = FindModel(context_.engine->models(), message.model());
  if (!model.ok()) return model.status();
  Encoder* const encoder = (*model)->model->encoder();
  if (encoder == nullptr) {
    return absl::UnimplementedError(
        absl::StrCat("model: \"", (*model)->name, "\" has no encoder; it generates and scores"));
  }
  absl::StatusOr<Request> request = ToRequest(message, **model, context_.limits);
  if (!request.ok()) return request.status();
  width_ = encoder->width();
  const int64_t tokens = MostTokens(*request);
  if (!request->mean && tokens > kMostNumbers / width_) {
    return absl::InvalidArgumentError(
        absl::StrCat(request->prompt_field, ": has ", tokens, " tokens, whose vectors of ", width_,
                     " numbers no message holds; ask for their mean, or for parts of at most ",
                     kMostNumbers / width_));
  }
  request->id = scope_.caller().request_id;
  request->owner = scope_.caller().owner;
  request->deadline = ToSteady(rpc_->deadline());
  request->sink = shared_from_this();
  const absl::StatusOr<RequestHandle> handle = context_.engine->Submit(*std::move(request));
  if (!handle.ok()) {
    const auto capacity = context_.engine->Capacity((*model)->name, tokens);
    AddRetryPushback(handle.status(), capacity.ok() && capacity->max_sessions > 0, rpc_);
    return handle.status();
  }
  bool cancelled;
  {
    absl::MutexLock lock(&mutex_);
    handle_ = *handle;
    cancelled = cancelled_;
  }
  if (cancelled) context_.engine->Cancel(*handle);
  return absl::OkStatus();
}

void EncodeCall::Refuse(const absl::Status& status) {
  scope_.Refuse(status);
  Finish(scope_.End(status));
}

void EncodeCall::OnCancel() {
  RequestHandle handle;
  {
    absl::MutexLock lock(&mutex_);
    cancelled_ = true;
    handle = handle_;
  }
  if (handle != 0) context_.engine->Cancel(handle);
}

void EncodeCall::OnDone() {
  scope_.Done();
  self_.reset();
}

void EncodeCall::OnDone(const absl::Status& status, const Usage& usage) {
  if (!status.ok()) return Finish(scope_.End(status));
  // Not on the loop: there may be hundreds of megabytes.
  context_.workers->Schedule(
      [self = shared_from_this(), tokens = usage.prompt_tokens] { self->Answer(tokens); });
}

void EncodeCall::Answer(int64_t tokens) {
  v1::EncodeResponse response;
  response.mutable_vectors()->Add(vectors_.begin(), vectors_.end());
  vectors_ = {};
  response.set_tokens(static_cast<int32_t>(tokens));
  response.set_width(static_cast<int32_t>(width_));
  auto bytes = SerializeMessage(response);
  if (!bytes.ok()) return Finish(scope_.End(bytes.status()));
  *out_ = *std::move(bytes);
  rpc_->AddInitialMetadata("x-request-id", scope_.caller().request_id);
  Finish(scope_.End(absl::OkStatus()));
}

}  // namespace tvq
