#include "server/rpc/score_call.h"

#include <utility>

#include "server/rpc/wire.h"

namespace tvq {
namespace {

int64_t TextBytes(const v1::ScoreRequest& message, const Tokenizer& tokenizer) {
  if (message.has_text()) return static_cast<int64_t>(message.text().size());
  int64_t bytes = 0;
  for (int32_t id : message.token_ids().ids()) {
    bytes += static_cast<int64_t>(tokenizer.TokenBytes(id).size());
  }
  return bytes;
}

constexpr MethodInfo kScore{"GenerationService/Score", Permission::kGenerate};

}  // namespace

const MethodInfo& ScoreCall::Method() const { return kScore; }

absl::StatusOr<Request> ScoreCall::Read(const grpc::ByteBuffer& bytes) {
  v1::ScoreRequest message;
  if (auto status = ParseMessage(bytes, &message); !status.ok()) return status;
  if (message.has_session()) return NoSessions();
  auto model = FindModel(context().engine->models(), message.model());
  if (!model.ok()) return model.status();
  absl::StatusOr<Request> request = ToRequest(message, **model, context().limits);
  if (!request.ok()) return request;
  tokenizer_ = &(*model)->model->tokenizer();
  prepend_eos_ = message.prepend_eos();
  summary_only_ = message.summary_only();
  tokens_ = static_cast<int64_t>(request->prompt.size()) - (prepend_eos_ ? 1 : 0);
  bytes_ = TextBytes(message, *tokenizer_);
  return request;
}

void ScoreCall::Filter(int64_t first, std::vector<TokenEvent>* events) {
  {
    absl::MutexLock lock(&sum_mutex_);
    for (const TokenEvent& event : *events) total_logprob_ += event.token.logprob;
  }
  if (summary_only_) {
    events->clear();
  } else if (first == 0 && prepend_eos_ && !events->empty()) {
    events->erase(events->begin());
  }
}

absl::StatusOr<grpc::ByteBuffer> ScoreCall::ToMessage(const Backlog& backlog) {
  v1::ScoreResponse message;
  for (const TokenEvent& event : backlog.prompt) {
    ToProto(event, *tokenizer_, message.add_tokens());
  }
  const int64_t put_first = prepend_eos_ ? 1 : 0;
  if (backlog.prompt_done) message.set_tokens_done(*backlog.prompt_done - put_first);
  if (backlog.usage) {
    message.set_tokens_done(tokens_);
    v1::ScoreSummary* summary = message.mutable_summary();
    summary->set_tokens(tokens_);
    summary->set_scored_tokens(tokens_ - 1 + put_first);
    summary->set_bytes(bytes_);
    absl::MutexLock lock(&sum_mutex_);
    summary->set_total_logprob(total_logprob_);
  }
  return SerializeMessage(message);
}

}  // namespace tvq
