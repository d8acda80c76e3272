#include "server/rpc/services/generation_service.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/refusal.h"
#include "models/runtime/begin_id.h"
#include "server/rpc/calls/encode_call.h"
#include "server/rpc/calls/generate_call.h"
#include "server/rpc/calls/score_call.h"
#include "server/rpc/calls/snapshots/generate_with_state_call.h"
#include "server/rpc/calls/unary_call.h"
#include "server/rpc/wire/conversation.h"
#include "server/rpc/wire/convert.h"
#include "server/rpc/wire/wire.h"

namespace tvq {
namespace {

constexpr MethodInfo kTokenize{"GenerationService/Tokenize", Permission::kGenerate};
constexpr MethodInfo kDetokenize{"GenerationService/Detokenize", Permission::kGenerate};

// The call holds itself until gRPC is done with it.
template <typename Call>
QueuedMethod::Begin BeginCall(const CallContext& context) {
  return [&context](std::unique_ptr<QueuedRpc> rpc) {
    std::make_shared<Call>(context, std::move(rpc))->Begin();
  };
}

absl::Status TokenizeText(const CallContext& context, const v1::TokenizeRequest& request,
                          v1::TokenizeResponse* response) {
  auto model = FindModel(context.engine->models(), request.model());
  if (!model.ok()) return model.status();
  const Tokenizer& tokenizer = (*model)->model->tokenizer();
  if (request.has_conversation()) {
    auto written = WriteConversation(request.conversation(), **model, context.limits);
    if (!written.ok()) return written.status();
    response->mutable_token_ids()->Add(written->ids.begin(), written->ids.end());
    response->set_unknown_tokens(static_cast<int32_t>(UnknownTokens(written->ids, tokenizer)));
    response->set_text(std::move(written->text));
    return absl::OkStatus();
  }
  if (auto status = CheckTextSize(std::ssize(request.text()), tokenizer, context.limits);
      !status.ok()) {
    return status;
  }
  auto ids = TextTokens(request.text(), request.allow_unknown(), **model);
  if (!ids.ok()) return ids.status();
  if (!request.has_add_special_tokens() || request.add_special_tokens()) {
    AddBosToken((*model)->model->info(), &*ids);
  }
  response->mutable_token_ids()->Add(ids->begin(), ids->end());
  response->set_unknown_tokens(static_cast<int32_t>(UnknownTokens(*ids, tokenizer)));
  return absl::OkStatus();
}

// A template may take long, however short the request is.
RunOn WhereToTokenize(const grpc::ByteBuffer& in) {
  v1::TokenizeRequest request;
  const bool small = in.Length() <= kInlineRequestBytes;
  return small && ParseMessage(in, &request).ok() && request.has_conversation()
             ? RunOn::kWorkers
             : RunOn::kThisThread;
}

// At least; what is no UTF-8 becomes longer.
int64_t TextBytes(const CallContext& context, const v1::DetokenizeRequest& request) {
  const auto model = FindModel(context.engine->models(), request.model());
  if (!model.ok()) return 0;
  const Tokenizer& tokenizer = (*model)->model->tokenizer();
  int64_t bytes = 0;
  for (const int32_t id : request.token_ids()) {
    if (id < 0 || id >= tokenizer.vocab_size()) return 0;
    bytes += static_cast<int64_t>(tokenizer.TokenBytes(id).size());
  }
  return bytes;
}

absl::Status DetokenizeIds(const CallContext& context, const v1::DetokenizeRequest& request,
                           v1::DetokenizeResponse* response) {
  auto model = FindModel(context.engine->models(), request.model());
  if (!model.ok()) return model.status();
  if (auto status = CheckTokenCount(request.token_ids_size(), context.limits, "token_ids");
      !status.ok()) {
    return status;
  }
  const std::vector<int32_t> ids(request.token_ids().begin(), request.token_ids().end());
  auto text = (*model)->model->tokenizer().Decode(ids);
  if (!text.ok()) {
    return Refused(Reason::kValueInvalid, "token_ids", MessageOf(text.status()));
  }
  response->set_text(*std::move(text));
  return absl::OkStatus();
}

}  // namespace

void GenerationService::Take(StreamWriters* writers) {
  const auto generate = [this](QueuedRpc* rpc, void* tag) {
    grpc::ServerCompletionQueue* const queue = rpc->writer->queue();
    RequestGenerate(&rpc->context, &rpc->request, &rpc->stream, queue, queue, tag);
  };
  const auto score = [this](QueuedRpc* rpc, void* tag) {
    grpc::ServerCompletionQueue* const queue = rpc->writer->queue();
    RequestScore(&rpc->context, &rpc->request, &rpc->stream, queue, queue, tag);
  };
  writers->Take(generate, BeginCall<GenerateCall>(context_));
  writers->Take(score, BeginCall<ScoreCall>(context_));
}

grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* GenerationService::GenerateWithState(
    grpc::CallbackServerContext* rpc) {
  const auto call = std::make_shared<GenerateWithStateCall>(context_, rpc);
  call->Begin();
  return call.get();
}

grpc::ServerUnaryReactor* GenerationService::Encode(grpc::CallbackServerContext* rpc,
                                                    const grpc::ByteBuffer* in,
                                                    grpc::ByteBuffer* out) {
  const auto call = std::make_shared<EncodeCall>(context_, rpc, out);
  call->Begin(*in);
  return call.get();
}

grpc::ServerUnaryReactor* GenerationService::Tokenize(grpc::CallbackServerContext* rpc,
                                                      const grpc::ByteBuffer* in,
                                                      grpc::ByteBuffer* out) {
  return BeginUnaryCall<v1::TokenizeRequest, v1::TokenizeResponse>(
      context_, kTokenize, rpc, in, out,
      [this](const Caller&, const auto& q, auto* r) { return TokenizeText(context_, q, r); },
      WhereToTokenize(*in));
}

grpc::ServerUnaryReactor* GenerationService::Detokenize(grpc::CallbackServerContext* rpc,
                                                        const grpc::ByteBuffer* in,
                                                        grpc::ByteBuffer* out) {
  return BeginUnaryCall<v1::DetokenizeRequest, v1::DetokenizeResponse>(
      context_, kDetokenize, rpc, in, out,
      [this](const Caller&, const auto& q, auto* r) { return DetokenizeIds(context_, q, r); },
      RunOn::kThisThread, [this](const auto& q) { return TextBytes(context_, q); });
}

}  // namespace tvq
