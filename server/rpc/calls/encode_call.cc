#include "server/rpc/calls/encode_call.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/refusal.h"
#include "server/rpc/wire/convert.h"
#include "server/rpc/wire/wire.h"

namespace tvq {
namespace {

// What a message of protobuf can hold, less what stands around the numbers.
constexpr int64_t kMostNumbers = (int64_t{1} << 29) - 1024;

// Around the vectors in a message, at most.
constexpr int64_t kAroundVectors = 64;

}  // namespace

void EncodeCall::Begin() {
  const grpc::ByteBuffer request = TakeRequest();
  if (!Admit()) return;
  if (request.Length() <= kInlineRequestBytes) return Open(request);
  // The copy shares the bytes.
  OnWorkers(request.Length(), [self = Held(this), request] { self->Open(request); });
}

void EncodeCall::Open(const grpc::ByteBuffer& bytes) {
  v1::EncodeRequest message;
  absl::Status status = IsCancelled() ? Refused(Reason::kCancelled, "the call was cancelled")
                                      : ParseMessage(bytes, &message);
  if (status.ok()) status = Ask(message);
  if (!status.ok()) End(status);
}

absl::Status EncodeCall::Ask(const v1::EncodeRequest& message) {
  const auto model = FindModel(context().engine->models(), message.model());
  if (!model.ok()) return model.status();
  Encoder* const encoder = (*model)->model->encoder();
  if (encoder == nullptr) {
    return Refused(
        Reason::kModelUnfit, "model",
        absl::StrCat("\"", (*model)->name, "\" has no encoder; it generates and scores"));
  }
  absl::StatusOr<Request> request = ToRequest(message, **model, context().limits);
  if (!request.ok()) return request.status();
  width_ = encoder->width();
  const int64_t tokens = MostTokens(*request);
  if (!request->mean && tokens > kMostNumbers / width_) {
    return Refused(
        Reason::kValueInvalid, request->prompt_field,
        absl::StrCat("has ", tokens, " tokens, whose vectors of ", width_,
                     " numbers no message holds; ask for their mean, or for parts of at most ",
                     kMostNumbers / width_));
  }
  const int64_t numbers = (request->mean ? 1 : tokens) * width_;
  const auto room = TakeRoom(numbers * static_cast<int64_t>(sizeof(float)) + kAroundVectors);
  if (!room.ok()) return room;
  return Submit(*std::move(request));
}

void EncodeCall::OnEnd(const absl::Status& status, const Usage& usage) {
  if (!status.ok()) return End(status);
  // Not on the loop: there may be hundreds of megabytes.
  context().workers->Schedule(
      caller().sharer,
      [self = Held(this), tokens = usage.prompt_tokens] { self->AnswerVectors(tokens); },
      vectors_.size() * sizeof(float));
}

void EncodeCall::AnswerVectors(int64_t tokens) {
  v1::EncodeResponse response;
  response.mutable_vectors()->Add(vectors_.begin(), vectors_.end());
  std::vector<float>().swap(vectors_);  // its memory, too, before the client takes the answer
  response.set_tokens(static_cast<int32_t>(tokens));
  response.set_width(static_cast<int32_t>(width_));
  Answer(response);
}

}  // namespace tvq
