#include "client/cli/sampling_options.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "tvq/v1/field.pb.h"

namespace tvq::cli {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Reflection;

constexpr char kSamplingGroup[] = "Sampling";

// "5=-1.5" -> id and bias.
bool ParseBias(const std::string& text, int32_t* id, float* bias) {
  const size_t equals = text.find('=');
  return equals != std::string::npos && absl::SimpleAtoi(text.substr(0, equals), id) &&
         absl::SimpleAtof(text.substr(equals + 1), bias);
}

std::string ProblemWithBias(const std::string& text) {
  int32_t id;
  float bias;
  return ParseBias(text, &id, &bias)
             ? ""
             : "\"" + text + "\" is not ID=BIAS, two numbers such as 5=-1.5";
}

std::string OptionOf(const FieldDescriptor& field) {
  const v1::Field& told = field.options().GetExtension(v1::field);
  if (!told.option().empty()) return told.option();
  return absl::StrCat("--", absl::StrReplaceAll(field.name(), {{"_", "-"}}));
}

// Only --json shows them.
bool IsForJson(const FieldDescriptor& field) {
  return field.number() == v1::SamplingParams::kLogprobsFieldNumber ||
         field.number() == v1::SamplingParams::kPromptLogprobsFieldNumber;
}

}  // namespace

void SamplingOptions::AddTo(flags::Command command, bool samples) {
  const auto& type = *v1::SamplingParams::descriptor();
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor& field = *type.field(i);
    if (!samples && field.number() == v1::SamplingParams::kNFieldNumber) continue;
    Add(command, given_.emplace_back(Given{.field = &field}));
  }
}

void SamplingOptions::Add(const flags::Command& command, Given& given) {
  const FieldDescriptor& field = *given.field;
  const std::string name = OptionOf(field);
  std::string help = field.options().GetExtension(v1::field).help();
  if (IsForJson(field)) help = absl::StrCat("With --json: ", help);
  const bool is_text = field.is_map() || field.cpp_type() == FieldDescriptor::CPPTYPE_STRING;
  if (is_text && field.is_repeated()) help += "; repeatable";
  const auto add = [&](auto& value) {
    return command.Add(name, value, help).Group(kSamplingGroup);
  };
  if (is_text) {
    const flags::Option option =
        field.is_repeated() ? add(given.texts).OneValueEach() : add(given.texts).OneValue();
    if (field.is_map()) option.TypeName("ID=BIAS").Check(ProblemWithBias);
    if (const auto* const group = field.real_containing_oneof()) {
      for (int i = 0; group->field(i) != &field; ++i) {
        option.Excludes(command.Find(OptionOf(*group->field(i))));
      }
    }
    return;
  }
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_FLOAT:
      add(given.number);
      break;
    case FieldDescriptor::CPPTYPE_INT32:
      if (field.is_repeated()) {
        add(given.ids).SplitAt(',');
      } else {
        add(given.integer);
      }
      break;
    case FieldDescriptor::CPPTYPE_UINT64:
      command.AddBits(name, given.bits, help).Group(kSamplingGroup);
      break;
    default:
      command.AddFlag(name, given.flag, help).Group(kSamplingGroup);
  }
}

absl::Status SamplingOptions::CheckShown(bool as_json) const {
  for (const Given& given : given_) {
    if (as_json || !given.integer || !IsForJson(*given.field)) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(OptionOf(*given.field), ": only --json shows them"));
  }
  return absl::OkStatus();
}

void SamplingOptions::Fill(v1::SamplingParams* params) const {
  const Reflection& write = *params->GetReflection();
  for (const Given& given : given_) {
    const FieldDescriptor* const field = given.field;
    if (given.number) write.SetFloat(params, field, *given.number);
    if (given.integer) write.SetInt32(params, field, *given.integer);
    if (given.bits) write.SetUInt64(params, field, *given.bits);
    if (given.flag) write.SetBool(params, field, true);
    for (const int32_t id : given.ids) write.AddInt32(params, field, id);
    for (const std::string& text : given.texts) {
      int32_t id = 0;
      float bias = 0;
      if (!field->is_map() && !field->is_repeated()) {
        write.SetString(params, field, text);
      } else if (!field->is_map()) {
        write.AddString(params, field, text);
      } else if (ParseBias(text, &id, &bias)) {
        (*params->mutable_logit_bias())[id] = bias;
      }
    }
  }
}

}  // namespace tvq::cli
