#include "server/rpc/calls/generate_output.h"

#include <utility>

#include "server/rpc/wire/convert.h"
#include "server/rpc/wire/to_proto.h"

namespace tvq {
namespace {

// The message's delta of this sample; there is at most one.
v1::SampleDelta* DeltaOf(int32_t index, v1::GenerateResponse* message) {
  for (v1::SampleDelta& delta : *message->mutable_deltas()) {
    if (delta.index() == index) return &delta;
  }
  return message->add_deltas();
}

}  // namespace

v1::GenerateResponse GenerateOutput::ToMessage(const Backlog& backlog) const {
  v1::GenerateResponse message;
  for (const TokenEvent& event : backlog.prompt) {
    ToProto(event, *tokenizer_, message.add_prompt_logprobs());
  }
  for (const Delta& delta : backlog.deltas) {
    ToProto(delta, *tokenizer_, logprobs_, DeltaOf(delta.index, &message));
  }
  if (backlog.usage) SetUsage(*backlog.usage, &message);
  if (backlog.session) *message.mutable_session() = *backlog.session;
  return message;
}

void GenerateOutput::SetUsage(const Usage& usage, v1::GenerateResponse* message) const {
  ToProto(usage, message->mutable_usage());
  message->mutable_usage()->set_reread_tokens(reread_);
}

bool GenerateOutput::Fits(size_t bytes) {
  kept_bytes_ += bytes;
  if (kept_bytes_ <= kMaxReplyBytes) return true;
  kept_.Clear();
  return false;
}

void GenerateOutput::Keep(const std::vector<TokenEvent>& prompt) {
  for (const TokenEvent& event : prompt) {
    v1::TokenLogprobs message;
    ToProto(event, *tokenizer_, &message);
    if (!Fits(message.ByteSizeLong())) return;
    *kept_.add_prompt_logprobs() = std::move(message);
  }
}

void GenerateOutput::Keep(const Delta& delta) {
  v1::SampleDelta message;
  ToProto(delta, *tokenizer_, logprobs_, &message);
  if (!Fits(message.ByteSizeLong())) return;
  ToProto(delta, *tokenizer_, logprobs_, DeltaOf(delta.index, &kept_));
}

std::optional<std::string> GenerateOutput::Kept(const Usage& usage,
                                                const v1::SessionPosition& position) {
  if (!Fits(0)) return std::nullopt;
  v1::GenerateResponse kept = std::move(kept_);
  v1::SampleDelta* const delta = DeltaOf(0, &kept);
  if (delta->finish_reason() == v1::FINISH_REASON_UNSPECIFIED) {
    delta->set_finish_reason(v1::FINISH_REASON_CANCELLED);  // it got no last delta
  }
  SetUsage(usage, &kept);
  *kept.mutable_session() = position;
  return kept.SerializeAsString();
}

}  // namespace tvq
