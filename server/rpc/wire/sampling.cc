#include "server/rpc/wire/sampling.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <algorithm>
#include <limits>
#include <string>

#include "server/rpc/wire/field_ranges.h"
#include "tvq/v1/field.pb.h"

namespace tvq {
namespace {

using google::protobuf::FieldDescriptor;

// What stands for an end that excludes zero: no useful value is smaller.
constexpr double kAboveZero = 1e-9;

DefaultField ToDefault(const FieldDescriptor& field, const v1::Field& told) {
  const bool whole = field.cpp_type() != FieldDescriptor::CPPTYPE_FLOAT;
  const double largest = whole ? double{std::numeric_limits<int32_t>::max()}
                               : double{std::numeric_limits<float>::max()};
  // A model's default may not be to generate nothing.
  const double least = field.number() == v1::SamplingParams::kMaxTokensFieldNumber ? 1 : told.min();
  return {.name = field.name(),
          .names = {told.default_names().begin(), told.default_names().end()},
          .min = told.above_min() ? least + kAboveZero : least,
          .max = told.has_max() ? told.max() : largest,
          .whole = whole};
}

void ApplySampling(const v1::SamplingParams& m, SamplingParams* p) {
#define TVQ_SAMPLE_READ(type, name, value) \
  if (m.has_##name()) p->name = m.name();
  TVQ_SAMPLE_NUMBERS(TVQ_SAMPLE_READ)
#undef TVQ_SAMPLE_READ
  if (m.has_seed()) p->seed = m.seed();
  p->stop.assign(m.stop().begin(), m.stop().end());
  p->stop_token_ids.assign(m.stop_token_ids().begin(), m.stop_token_ids().end());
  p->include_stop_str_in_output = m.include_stop_str_in_output();
  if (m.has_max_tokens()) p->max_tokens = m.max_tokens();
  if (m.has_min_tokens()) p->min_tokens = m.min_tokens();
  p->allowed_token_ids.assign(m.allowed_token_ids().begin(), m.allowed_token_ids().end());
  if (m.has_logprobs()) p->logprobs = m.logprobs();
  if (m.has_prompt_logprobs()) p->prompt_logprobs = m.prompt_logprobs();
  for (const auto& [id, bias] : m.logit_bias()) p->logit_bias.push_back({id, bias});
  p->ignore_eos = m.ignore_eos();
  if (m.has_n()) p->n = m.n();
  p->echo = m.echo();
}

}  // namespace

std::vector<DefaultField> DefaultFields() {
  std::vector<DefaultField> fields;
  const auto& type = *v1::SamplingParams::descriptor();
  for (int i = 0; i < type.field_count(); ++i) {
    const v1::Field& told = type.field(i)->options().GetExtension(v1::field);
    if (!told.default_names().empty()) fields.push_back(ToDefault(*type.field(i), told));
  }
  return fields;
}

v1::SamplingParams DefaultsMessage(const GenerationDefaults& defaults) {
  v1::SamplingParams message;
  for (const auto& [name, value] : defaults.numbers) {
    const FieldDescriptor* const field = message.GetDescriptor()->FindFieldByName(name);
    if (field->cpp_type() == FieldDescriptor::CPPTYPE_FLOAT) {
      message.GetReflection()->SetFloat(&message, field, static_cast<float>(value));
    } else {
      message.GetReflection()->SetInt32(&message, field, static_cast<int32_t>(value));
    }
  }
  return message;
}

absl::StatusOr<SamplingParams> ToSampling(const v1::SamplingParams& message,
                                          const GenerationDefaults& defaults) {
  if (auto status = CheckRanges(message); !status.ok()) return status;
  SamplingParams params;
  ApplySampling(DefaultsMessage(defaults), &params);
  ApplySampling(message, &params);
  return params;
}

}  // namespace tvq
