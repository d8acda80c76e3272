#include "server/rpc/generate_call.h"

#include <utility>

#include "server/rpc/wire.h"

namespace tvq {
namespace {

// The message's delta of this sample; there is at most one.
v1::SampleDelta* DeltaOf(int32_t index, v1::GenerateResponse* message) {
  for (v1::SampleDelta& delta : *message->mutable_deltas()) {
    if (delta.index() == index) return &delta;
  }
  return message->add_deltas();
}

constexpr MethodInfo kGenerate{"GenerationService/Generate", Permission::kGenerate};

}  // namespace

const MethodInfo& GenerateCall::Method() const { return kGenerate; }

absl::StatusOr<Request> GenerateCall::Read(const grpc::ByteBuffer& bytes) {
  v1::GenerateRequest message;
  if (auto status = ParseMessage(bytes, &message); !status.ok()) return status;
  if (message.has_session()) return NoSessions();
  auto model = FindModel(context().engine->models(), message.model());
  if (!model.ok()) return model.status();
  absl::StatusOr<Request> request = ToRequest(message, **model, context().limits);
  if (!request.ok()) return request;
  tokenizer_ = &(*model)->model->tokenizer();
  logprobs_ = request->sampling.logprobs.has_value();
  return request;
}

absl::StatusOr<grpc::ByteBuffer> GenerateCall::ToMessage(const Backlog& backlog) {
  v1::GenerateResponse message;
  for (const TokenEvent& event : backlog.prompt) {
    ToProto(event, *tokenizer_, message.add_prompt_logprobs());
  }
  for (const Delta& delta : backlog.deltas) {
    ToProto(delta, *tokenizer_, logprobs_, DeltaOf(delta.index, &message));
  }
  if (backlog.usage) ToProto(*backlog.usage, message.mutable_usage());
  return SerializeMessage(message);
}

}  // namespace tvq
