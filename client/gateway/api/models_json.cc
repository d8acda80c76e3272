#include "client/gateway/api/models_json.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <string>
#include <utility>
#include <vector>

#include "client/gateway/bodies/json_text.h"
#include "client/json/session_json.h"

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

// What the server tells of now and what it tells of before.
template <typename Message>
void AddFigures(const Message& figures, OrderedJson* json) {
  OrderedJson sessions = OrderedJson::object();
  OrderedJson bytes = OrderedJson::object();
  for (const v1::TierUse& tier : figures.tiers()) {
    sessions[client::TierName(tier.tier())] = tier.sessions();
    bytes[client::TierName(tier.tier())] = tier.state_bytes();
  }
  const auto& uptime = figures.uptime();
  (*json)["uptime"] = static_cast<double>(uptime.seconds()) + uptime.nanos() * 1e-9;
  (*json)["requests_running"] = figures.requests_running();
  (*json)["requests_waiting"] = figures.requests_waiting();
  (*json)["prefill_tokens_computed"] = figures.prefill_tokens_computed();
  (*json)["prefill_tokens_reused"] = figures.prefill_tokens_reused();
  (*json)["generation_tokens"] = figures.generation_tokens();
  (*json)["sessions"] = std::move(sessions);
  (*json)["state_bytes"] = std::move(bytes);
}

}  // namespace

OrderedJson ToJson(const v1::SamplingParams& defaults) {
  const google::protobuf::Reflection& read = *defaults.GetReflection();
  std::vector<const google::protobuf::FieldDescriptor*> set;  // numbers all of them
  read.ListFields(defaults, &set);
  OrderedJson json = OrderedJson::object();
  for (const auto* const field : set) {
    if (field->cpp_type() == google::protobuf::FieldDescriptor::CPPTYPE_FLOAT) {
      json[field->name()] = Shortest(read.GetFloat(defaults, field));
    } else {
      json[field->name()] = read.GetInt32(defaults, field);
    }
  }
  return json;
}

OrderedJson SizesJson(const v1::Model& model) {
  OrderedJson sizes = OrderedJson::array();
  for (const v1::SessionSize& size : model.session_sizes()) {
    sizes.push_back({{"tokens", size.tokens()}, {"bytes", size.bytes()}});
  }
  return sizes;
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
          {"bytes_per_token", model.bytes_per_token()},
          {"cache_bytes_per_token", model.cache_bytes_per_token()},
          {"session_sizes", SizesJson(model)},
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
  OrderedJson json = {{"object", "server"},
                      {"version", info.version()},
                      {"build", info.build()},
                      {"device", info.device()},
                      {"start_time", info.start_time().seconds()}};
  AddFigures(info, &json);
  OrderedJson budget = OrderedJson::object();
  for (const v1::TierUse& tier : info.tiers())
    budget[client::TierName(tier.tier())] = tier.budget_bytes();
  json["draining"] = info.draining();
  json["left_state_bytes"] = info.left_state_bytes();
  json["state_budget_bytes"] = std::move(budget);
  return json;
}

OrderedJson HistoryJson(const v1::GetServerInfoResponse& info) {
  OrderedJson json = OrderedJson::array();
  for (const v1::ServerSample& sample : info.history()) {
    AddFigures(sample, &json.emplace_back(OrderedJson::object()));
  }
  return json;
}

std::string Dump(const OrderedJson& json) {
  return json.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
}

}  // namespace tvq::gateway
