#include "server/rpc/calls/score_call.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "server/rpc/wire/convert.h"
#include "server/rpc/wire/to_proto.h"
#include "server/rpc/wire/wire.h"

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

// Those of TextBytes that the first token stands for.
int64_t FirstBytes(const v1::ScoreRequest& message, const Tokenizer& tokenizer, int32_t first) {
  std::string_view bytes = tokenizer.TokenBytes(first);
  if (message.has_text() && tokenizer.StripsLeadingSpace() && bytes.starts_with(' ')) {
    bytes.remove_prefix(1);
  }
  return static_cast<int64_t>(bytes.size());
}

}  // namespace

absl::Status ScoreCall::Parse(const grpc::ByteBuffer& bytes) {
  return ParseMessage(bytes, &message_);
}

const v1::SessionCall* ScoreCall::SessionField() const {
  return message_.has_session() ? &message_.session() : nullptr;
}

absl::StatusOr<Request> ScoreCall::Convert(SessionUse* session) {
  const v1::ScoreRequest message = std::move(message_);
  const auto model = Model(message.model(), session);
  if (!model.ok()) return model.status();
  const ContextStart start = StartOf(session != nullptr ? &session->record() : nullptr);
  auto input = ToRequest(message, **model, context().limits, start);
  if (!input.ok()) return input.status();
  const std::vector<int32_t>& prompt = input->request.prompt;
  tokenizer_ = &(*model)->model->tokenizer();
  before_ = input->before;
  summary_only_ = message.summary_only();
  tokens_ = static_cast<int64_t>(prompt.size()) - before_;
  scored_tokens_ = tokens_ - (start.position + before_ == 0 ? 1 : 0);
  bytes_ = TextBytes(message, *tokenizer_);
  if (scored_tokens_ < tokens_) {
    bytes_ = std::max<int64_t>(0, bytes_ - FirstBytes(message, *tokenizer_, prompt.front()));
  }
  unknown_tokens_ = UnknownTokens(prompt, *tokenizer_);
  return std::move(input->request);
}

void ScoreCall::Filter(int64_t first, std::vector<TokenEvent>* events) {
  if (first == 0 && before_ > 0 && !events->empty()) events->erase(events->begin());
  {
    const MutexLock lock(&sum_mutex_);
    for (const TokenEvent& event : *events) total_logprob_ += event.token.logprob;
  }
  if (summary_only_) events->clear();
}

void ScoreCall::Summarize(v1::ScoreResponse* message) {
  message->set_tokens_done(tokens_);
  v1::ScoreSummary* summary = message->mutable_summary();
  summary->set_tokens(tokens_);
  summary->set_scored_tokens(scored_tokens_);
  summary->set_bytes(bytes_);
  summary->set_unknown_tokens(unknown_tokens_);
  const MutexLock lock(&sum_mutex_);
  summary->set_total_logprob(total_logprob_);
}

absl::StatusOr<grpc::ByteBuffer> ScoreCall::ToMessage(const Backlog& backlog) {
  v1::ScoreResponse message;
  for (const TokenEvent& event : backlog.prompt) {
    ToProto(event, *tokenizer_, message.add_tokens());
  }
  if (backlog.prompt_done) message.set_tokens_done(*backlog.prompt_done - before_);
  if (backlog.usage) Summarize(&message);
  if (backlog.session) *message.mutable_session() = *backlog.session;
  return SerializeMessage(message);
}

void ScoreCall::KeepPrompt(const std::vector<TokenEvent>& events) {
  if (!keeps_reply()) return;
  for (const TokenEvent& event : events) {
    v1::TokenLogprobs token;
    ToProto(event, *tokenizer_, &token);
    kept_bytes_ += token.ByteSizeLong();
    if (kept_bytes_ > kMaxReplyBytes) return kept_.Clear();
    *kept_.add_tokens() = std::move(token);
  }
}

std::optional<std::string> ScoreCall::Reply(const Usage&, const v1::SessionPosition& position) {
  if (kept_bytes_ > kMaxReplyBytes) return std::nullopt;
  v1::ScoreResponse kept = std::move(kept_);
  Summarize(&kept);
  *kept.mutable_session() = position;
  return kept.SerializeAsString();
}

absl::StatusOr<grpc::ByteBuffer> ScoreCall::Replay(const std::string& reply,
                                                   int64_t persisted_version) {
  v1::ScoreResponse message;
  if (auto status = ParseReply(reply, &message); !status.ok()) return status;
  message.mutable_session()->set_persisted_version(persisted_version);
  return SerializeMessage(message);
}

}  // namespace tvq
