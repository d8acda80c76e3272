#include "server/rpc/services/generation_service.h"

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
#include "server/rpc/wire/conversation.h"
#include "server/rpc/wire/convert.h"
#include "server/rpc/wire/wire.h"
#include "tvq/v1/generation.pb.h"

namespace tvq {
namespace {

constexpr MethodInfo kGenerate{"GenerationService/Generate", Permission::kGenerate};
constexpr MethodInfo kGenerateWithState{"GenerationService/GenerateWithState",
                                        Permission::kGenerate};
constexpr MethodInfo kScore{"GenerationService/Score", Permission::kGenerate};
constexpr MethodInfo kEncode{"GenerationService/Encode", Permission::kGenerate};
constexpr MethodInfo kTokenize{"GenerationService/Tokenize", Permission::kGenerate};
constexpr MethodInfo kDetokenize{"GenerationService/Detokenize", Permission::kGenerate};

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

// A template may, however short the request is.
bool TakesLong(const grpc::ByteBuffer& in) {
  v1::TokenizeRequest request;
  return ParseMessage(in, &request).ok() && request.has_conversation();
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

GenerationService::GenerationService(const CallContext& context) : TvqService(context) {
  AddCalls<GenerateCall>(kGenerate, Requests::kOne);
  AddCalls<GenerateWithStateCall>(kGenerateWithState, Requests::kStream);
  AddCalls<ScoreCall>(kScore, Requests::kOne);
  AddCalls<EncodeCall>(kEncode, Requests::kOne);
  AddUnary<v1::TokenizeRequest, v1::TokenizeResponse>(
      {.info = kTokenize,
       .handle = [&](auto&, auto& q, auto* r) { return TokenizeText(context, q, r); },
       .takes_long = TakesLong});
  AddUnary<v1::DetokenizeRequest, v1::DetokenizeResponse>(
      {.info = kDetokenize,
       .handle = [&](auto&, auto& q, auto* r) { return DetokenizeIds(context, q, r); },
       .room = [&](auto& q) { return TextBytes(context, q); }});
}

}  // namespace tvq
