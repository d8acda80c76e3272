#include "server/rpc/wire/to_proto.h"

#include <string>
#include <utility>

#include "models/runtime/begin_id.h"
#include "server/rpc/wire/sampling.h"

namespace tvq {
namespace {

v1::FinishReason ToProto(FinishReason reason) {
  switch (reason) {
    case FinishReason::kNone:
      return v1::FINISH_REASON_UNSPECIFIED;
    case FinishReason::kStop:
      return v1::FINISH_REASON_STOP;
    case FinishReason::kLength:
      return v1::FINISH_REASON_LENGTH;
    case FinishReason::kCancelled:
      return v1::FINISH_REASON_CANCELLED;
    case FinishReason::kError:
      return v1::FINISH_REASON_ERROR;
  }
  return v1::FINISH_REASON_UNSPECIFIED;
}

void ToProto(const TokenLogprob& token, const Tokenizer& tokenizer, v1::TokenLogprob* message) {
  message->set_token_id(token.id);
  message->set_token(std::string(tokenizer.TokenBytes(token.id)));
  message->set_logprob(token.logprob);
  message->set_rank(token.rank);
}

void ToProto(const ChatTemplate::Role& role, v1::ChatTemplate::Role* message) {
  message->set_prefix(role.prefix);
  message->set_suffix(role.suffix);
}

void ToProto(const ChatTemplate& chat, v1::ChatTemplate* message) {
  if (chat.system) ToProto(*chat.system, message->mutable_system());
  ToProto(chat.user, message->mutable_user());
  ToProto(chat.assistant, message->mutable_assistant());
  for (const std::string& stop : chat.stop) message->add_stop(stop);
}

void ToProto(const TokenizerConfig& pixels, v1::ImageShape* message) {
  message->set_height(static_cast<int32_t>(pixels.height));
  message->set_width(static_cast<int32_t>(pixels.width));
  message->set_channels(static_cast<int32_t>(pixels.channels));
  message->set_levels(static_cast<int32_t>(pixels.levels));
  message->set_first_token_id(0);  // its ids are the levels
}

}  // namespace

void ToProto(const TokenEvent& event, const Tokenizer& tokenizer, v1::TokenLogprobs* message) {
  ToProto(event.token, tokenizer, message->mutable_token());
  message->set_has_logprob(event.token.rank > 0);
  for (const TokenLogprob& top : event.top) ToProto(top, tokenizer, message->add_top());
}

void ToProto(const Delta& delta, const Tokenizer& tokenizer, bool with_logprobs,
             v1::SampleDelta* message) {
  message->set_index(delta.index);
  message->mutable_text()->append(delta.text);
  for (const TokenEvent& event : delta.tokens) {
    message->add_token_ids(event.token.id);
    if (with_logprobs) ToProto(event, tokenizer, message->add_logprobs());
  }
  message->set_finish_reason(ToProto(delta.finish));
  if (delta.stop_string) message->set_stop_string(*delta.stop_string);
  if (delta.stop_token) message->set_stop_token_id(*delta.stop_token);
}

void ToProto(const Usage& usage, v1::Usage* message) {
  message->set_prompt_tokens(usage.prompt_tokens);
  message->set_cached_tokens(usage.cached_tokens);
  message->set_completion_tokens(usage.completion_tokens);
}

void ToProto(const ServedModel& served, const ModelCapacity& capacity, const RequestLimits& limits,
             v1::Model* message) {
  const ModelInfo& info = served.model->info();
  const CommonConfig& config = info.config;
  message->set_name(served.name);
  message->set_family(info.family);
  message->set_parameters(info.parameters);
  message->set_vocab_size(static_cast<int32_t>(config.vocab_size));
  message->set_dtype(Name(info.dtype));
  message->set_state_dtype(Name(info.state_dtype));
  message->set_weight_bytes(info.weight_bytes);
  message->set_cache_bytes_per_token(info.cache_bytes_per_token);
  message->set_state_grows(capacity.grows);
  message->set_quoted_tokens(capacity.tokens);
  message->set_bytes_per_session(capacity.bytes_per_session);
  message->set_max_sessions(capacity.max_sessions);
  message->set_sessions_in_use(capacity.sessions_in_use);
  message->set_bytes_per_token(capacity.bytes_per_token);
  for (const SessionSize& size : capacity.sizes) {
    v1::SessionSize* const told = message->add_session_sizes();
    told->set_tokens(size.tokens);
    told->set_bytes(size.bytes);
  }
  message->set_prefill_chunk(config.prefill_chunk);
  message->set_max_position(config.max_position);
  message->set_max_prompt_tokens(limits.max_prompt_tokens);
  message->set_tokenizer(std::string(served.model->tokenizer().type()));
  if (config.pad_token_id) message->set_pad_token_id(*config.pad_token_id);
  if (const auto bos = BosTokenId(info)) message->set_bos_token_id(*bos);
  const std::vector<int32_t> ends = EndIds(info);
  if (!ends.empty()) message->set_eos_token_id(ends.front());
  if (config.unk_token_id) message->set_unk_token_id(*config.unk_token_id);
  *message->mutable_default_sampling() = DefaultsMessage(info.generation);
  message->set_fingerprint(info.fingerprint);
  if (config.tokenizer.height > 0) ToProto(config.tokenizer, message->mutable_image());
  if (info.generation.chat_template) {
    ToProto(*info.generation.chat_template, message->mutable_chat_template());
  }
  message->set_can_encode(served.model->encoder() != nullptr);
  message->set_add_bos_token(AddsBosToken(info));
  if (info.conversations == nullptr) return;
  for (std::string& name : info.conversations->names()) {
    message->add_conversation_templates(std::move(name));
  }
}

}  // namespace tvq
