#include "client/gateway/openai/sampling.h"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "client/gateway/openai/json_text.h"

namespace tvq::gateway {
namespace {

struct FloatField {
  const char* name;
  void (v1::SamplingParams::*set)(float);
};

constexpr FloatField kFloats[] = {
    {"temperature", &v1::SamplingParams::set_temperature},
    {"top_p", &v1::SamplingParams::set_top_p},
    {"min_p", &v1::SamplingParams::set_min_p},
    {"presence_penalty", &v1::SamplingParams::set_presence_penalty},
    {"frequency_penalty", &v1::SamplingParams::set_frequency_penalty},
    {"repetition_penalty", &v1::SamplingParams::set_repetition_penalty}};

struct IntField {
  const char* name;
  void (v1::SamplingParams::*set)(int32_t);
};

constexpr IntField kInts[] = {{"top_k", &v1::SamplingParams::set_top_k},
                              {"min_tokens", &v1::SamplingParams::set_min_tokens},
                              {"n", &v1::SamplingParams::set_n},
                              {"prompt_logprobs", &v1::SamplingParams::set_prompt_logprobs}};

constexpr size_t kShownBytes = 64;  // of a name that is wrong

// {"id": bias}
void ReadBias(Fields& fields, v1::SamplingParams* sampling) {
  const Json* const biases = fields.Object("logit_bias");
  if (biases == nullptr) return;
  for (const auto& [key, value] : biases->items()) {
    int32_t id = 0;
    // As an id is written: " 5" and "05" could be given beside "5", and one of them would count.
    if (!absl::SimpleAtoi(key, &id) || absl::StrCat(id) != key) {
      std::string problem = "its names must be token ids, such as \"5\", and ";
      AppendJsonString(std::string_view(key).substr(0, kShownBytes), &problem);
      fields.Fail("logit_bias", problem + " is none");
      return;
    }
    if (!value.is_number()) {
      fields.Fail(absl::StrCat("logit_bias.", id), "must be a number");
      return;
    }
    (*sampling->mutable_logit_bias())[id] = value.get<float>();
  }
}

}  // namespace

void ReadSampling(Fields& fields, v1::SamplingParams* sampling) {
  for (const FloatField& field : kFloats) {
    if (const auto value = fields.Float(field.name)) (sampling->*field.set)(*value);
  }
  for (const IntField& field : kInts) {
    if (const auto value = fields.Int32(field.name)) (sampling->*field.set)(*value);
  }
  // Clients send negative seeds, too.
  if (const auto seed = fields.Bits64("seed")) sampling->set_seed(*seed);
  for (std::string& stop : fields.Strings("stop")) sampling->add_stop(std::move(stop));
  for (const int32_t id : fields.Ints("stop_token_ids")) sampling->add_stop_token_ids(id);
  for (const int32_t id : fields.Ints("allowed_token_ids")) sampling->add_allowed_token_ids(id);
  sampling->set_include_stop_str_in_output(
      fields.Bool("include_stop_str_in_output").value_or(false));
  sampling->set_ignore_eos(fields.Bool("ignore_eos").value_or(false));
  sampling->set_limit_to_context(fields.Bool("limit_to_context").value_or(false));
  ReadBias(fields, sampling);
}

v1::Durability ReadDurability(Fields& fields) {
  const auto durability = fields.String("durability");
  if (!durability) return v1::DURABILITY_UNSPECIFIED;
  if (*durability == "memory") return v1::DURABILITY_MEMORY;
  if (*durability == "disk") return v1::DURABILITY_DISK;
  fields.Fail("durability", "must be \"memory\" or \"disk\"");
  return v1::DURABILITY_UNSPECIFIED;
}

int32_t SampleCount(const v1::SamplingParams& sampling) {
  constexpr int32_t kMaxSamples = 128;
  return sampling.has_n() ? std::clamp(sampling.n(), 1, kMaxSamples) : 1;
}

void ReadSession(Fields& fields, std::string_view idempotency_key, v1::GenerateRequest* request) {
  const auto id = fields.String("session_id");
  const auto version = fields.Int("expected_version");
  const v1::Durability durability = ReadDurability(fields);
  const auto commit = fields.Bool("commit_on_cancel");
  if (!id) {
    for (const char* name : {"expected_version", "durability", "commit_on_cancel"}) {
      if (fields.Has(name)) fields.Fail(name, "must be left out without session_id");
    }
    return;
  }
  v1::SessionCall* const session = request->mutable_session();
  session->set_session_id(*id);
  if (version) session->set_expected_version(*version);
  session->set_durability(durability);
  session->set_commit_on_cancel(commit.value_or(false));
  session->set_idempotency_key(std::string(idempotency_key));
}

void CheckResponseFormat(Fields& fields) {
  const Json* const format = fields.Object("response_format");
  if (format == nullptr || format->empty() || format->value("type", Json()) == "text") return;
  fields.Fail("response_format",
              "must be of type text or left out: no other is supported, for these models only "
              "continue a text");
}

StreamOptions ReadStream(Fields& fields) {
  StreamOptions options;
  options.stream = fields.Bool("stream").value_or(false);
  if (const Json* const object = fields.Object("stream_options")) {
    Fields inner(*object, "stream_options.");
    options.include_usage = inner.Bool("include_usage").value_or(false);
    if (!inner.status().ok()) {
      fields.Fail("stream_options.include_usage", "must be true or false");
    }
    if (!options.stream) fields.Fail("stream_options", "must be left out unless stream is true");
  }
  return options;
}

}  // namespace tvq::gateway
