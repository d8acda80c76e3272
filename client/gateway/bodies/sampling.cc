#include "client/gateway/bodies/sampling.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "client/gateway/bodies/json_text.h"
#include "tvq/v1/field.pb.h"

namespace tvq::gateway {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Reflection;

// These mean something else to each kind of call.
bool IsOfTheCall(const FieldDescriptor& field) {
  return field.number() == v1::SamplingParams::kMaxTokensFieldNumber ||
         field.number() == v1::SamplingParams::kLogprobsFieldNumber ||
         field.number() == v1::SamplingParams::kEchoFieldNumber;
}

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
  const auto& type = *sampling->GetDescriptor();
  const Reflection& write = *sampling->GetReflection();
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor* const field = type.field(i);
    const char* const name = field->name().c_str();
    if (IsOfTheCall(*field)) continue;
    if (field->is_map()) {
      ReadBias(fields, sampling);
      continue;
    }
    switch (field->cpp_type()) {
      case FieldDescriptor::CPPTYPE_FLOAT:
        if (const auto value = fields.Float(name)) write.SetFloat(sampling, field, *value);
        break;
      case FieldDescriptor::CPPTYPE_INT32:
        if (field->is_repeated()) {
          for (const int32_t id : fields.Ints(name)) write.AddInt32(sampling, field, id);
        } else if (const auto value = fields.Int32(name)) {
          write.SetInt32(sampling, field, *value);
        }
        break;
      case FieldDescriptor::CPPTYPE_UINT64:  // clients send negative seeds, too
        if (const auto bits = fields.Bits64(name)) write.SetUInt64(sampling, field, *bits);
        break;
      case FieldDescriptor::CPPTYPE_STRING:
        if (const auto* const group = field->real_containing_oneof()) {
          const auto text = fields.String(name);
          if (text && write.HasOneof(*sampling, group)) {
            fields.Fail(name, absl::StrCat("must be left out where ",
                                           write.GetOneofFieldDescriptor(*sampling, group)->name(),
                                           " is given"));
          }
          if (text) write.SetString(sampling, field, *text);
          break;
        }
        for (std::string& text : fields.Strings(name)) {
          write.AddString(sampling, field, std::move(text));
        }
        break;
      default:
        write.SetBool(sampling, field, fields.Bool(name).value_or(false));
    }
  }
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
  const FieldDescriptor* const n =
      sampling.GetDescriptor()->FindFieldByNumber(v1::SamplingParams::kNFieldNumber);
  const auto most = static_cast<int32_t>(n->options().GetExtension(v1::field).max());
  return sampling.has_n() ? std::clamp(sampling.n(), 1, most) : 1;
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
