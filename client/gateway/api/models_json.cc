#include "client/gateway/api/models_json.h"

#include <string>
#include <utility>

#include "client/gateway/api/sessions_json.h"
#include "client/gateway/openai/json_text.h"

namespace tvq::gateway {
namespace {

OrderedJson IdOrNull(bool has, int32_t id) { return has ? OrderedJson(id) : OrderedJson(); }

// 0.7 and not 0.699999988: the digits that give the same float.
OrderedJson Shortest(float value) {
  std::string digits;
  AppendJsonNumber(value, &digits);
  return OrderedJson::parse(digits);
}

OrderedJson ImageJson(const v1::ImageShape& image) {
  return {{"height", image.height()},
          {"width", image.width()},
          {"channels", image.channels()},
          {"levels", image.levels()},
          {"first_token_id", image.first_token_id()}};
}

template <typename Texts>
OrderedJson TextsJson(const Texts& texts) {
  OrderedJson json = OrderedJson::array();
  for (const std::string& text : texts) json.push_back(text);
  return json;
}

}  // namespace

OrderedJson ToJson(const v1::SamplingParams& defaults) {
  OrderedJson json = OrderedJson::object();
  if (defaults.has_temperature()) json["temperature"] = Shortest(defaults.temperature());
  if (defaults.has_top_k()) json["top_k"] = defaults.top_k();
  if (defaults.has_top_p()) json["top_p"] = Shortest(defaults.top_p());
  if (defaults.has_min_p()) json["min_p"] = Shortest(defaults.min_p());
  if (defaults.has_presence_penalty()) {
    json["presence_penalty"] = Shortest(defaults.presence_penalty());
  }
  if (defaults.has_frequency_penalty()) {
    json["frequency_penalty"] = Shortest(defaults.frequency_penalty());
  }
  if (defaults.has_repetition_penalty()) {
    json["repetition_penalty"] = Shortest(defaults.repetition_penalty());
  }
  if (defaults.has_max_tokens()) json["max_tokens"] = defaults.max_tokens();
  return json;
}

OrderedJson ToJson(const v1::Model& model) {
  return {{"id", model.name()},
          {"object", "model"},
          {"created", 0},
          {"owned_by", "tvq"},
          {"family", model.family()},
          {"parameters", model.parameters()},
          {"vocab_size", model.vocab_size()},
          {"dtype", model.dtype()},
          {"state_dtype", model.state_dtype()},
          {"weight_bytes", model.weight_bytes()},
          {"bytes_per_session", model.bytes_per_session()},
          {"state_grows", model.state_grows()},
          {"quoted_tokens", model.quoted_tokens()},
          {"max_sessions", model.max_sessions()},
          {"sessions_in_use", model.sessions_in_use()},
          {"prefill_chunk", model.prefill_chunk()},
          {"max_position", model.max_position()},
          {"max_prompt_tokens", model.max_prompt_tokens()},
          {"tokenizer", model.tokenizer()},
          {"pad_token_id", IdOrNull(model.has_pad_token_id(), model.pad_token_id())},
          {"bos_token_id", IdOrNull(model.has_bos_token_id(), model.bos_token_id())},
          {"eos_token_id", IdOrNull(model.has_eos_token_id(), model.eos_token_id())},
          {"unk_token_id", IdOrNull(model.has_unk_token_id(), model.unk_token_id())},
          {"add_bos_token", model.add_bos_token()},
          {"default_sampling", ToJson(model.default_sampling())},
          {"can_encode", model.can_encode()},
          {"fingerprint", model.fingerprint()},
          {"has_chat_template", model.has_chat_template()},
          {"conversation_templates", TextsJson(model.conversation_templates())},
          {"image", model.has_image() ? ImageJson(model.image()) : OrderedJson()}};
}

OrderedJson ToJson(const v1::GetServerInfoResponse& info) {
  OrderedJson sessions = OrderedJson::object();
  OrderedJson bytes = OrderedJson::object();
  OrderedJson budget = OrderedJson::object();
  for (const v1::TierUse& tier : info.tiers()) {
    sessions[TierName(tier.tier())] = tier.sessions();
    bytes[TierName(tier.tier())] = tier.state_bytes();
    budget[TierName(tier.tier())] = tier.budget_bytes();
  }
  return {{"object", "server"},
          {"version", info.version()},
          {"build", info.build()},
          {"device", info.device()},
          {"start_time", info.start_time().seconds()},
          {"uptime", static_cast<double>(info.uptime().seconds()) + info.uptime().nanos() * 1e-9},
          {"draining", info.draining()},
          {"requests_running", info.requests_running()},
          {"requests_waiting", info.requests_waiting()},
          {"prefill_tokens_computed", info.prefill_tokens_computed()},
          {"prefill_tokens_reused", info.prefill_tokens_reused()},
          {"generation_tokens", info.generation_tokens()},
          {"left_state_bytes", info.left_state_bytes()},
          {"sessions", std::move(sessions)},
          {"state_bytes", std::move(bytes)},
          {"state_budget_bytes", std::move(budget)}};
}

std::string Dump(const OrderedJson& json) {
  return json.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
}

}  // namespace tvq::gateway
