#include "client/gateway/bodies/output_form.h"

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "client/gateway/bodies/raw_json.h"

namespace tvq::gateway {
namespace {

// Whether a form may come from this field. Fails if there is one already.
bool MayHave(Fields& fields, std::string_view name, const v1::SamplingParams& sampling) {
  if (sampling.form_case() == v1::SamplingParams::FORM_NOT_SET && sampling.choice().empty()) {
    return true;
  }
  fields.Fail(name, "must be left out where another field says what the answer must be");
  return false;
}

using Names = std::vector<std::string_view>;

// A schema is an object, true or false, or the text of one. `place`: where it stands in the body.
void SetSchema(Fields& fields, std::string_view name, const Json& schema, std::string_view body,
               const Names& place, v1::SamplingParams* sampling) {
  if (!MayHave(fields, name, *sampling)) return;
  if (schema.is_string()) {
    sampling->set_json_schema(schema.get<std::string>());
  } else if (schema.is_object() || schema.is_boolean()) {
    sampling->set_json_schema(std::string(ValueAt(body, place)));
  } else {
    fields.Wrong(name, &schema, "must be a JSON Schema");
  }
}

void SetAnyObject(Fields& fields, std::string_view name, v1::SamplingParams* sampling) {
  if (MayHave(fields, name, *sampling)) sampling->set_json_schema(R"({"type": "object"})");
}

void ReadResponseFormat(std::string_view body, Fields& fields, v1::SamplingParams* sampling) {
  const Json* const format = fields.Object("response_format");
  if (format == nullptr || format->empty()) return;
  Fields inner(*format, "response_format.");
  const std::string type = inner.String("type").value_or("");
  if (type == "json_object") {
    SetAnyObject(inner, "type", sampling);
  } else if (type == "json_schema") {
    const Json* const told = inner.Object("json_schema");
    const Json* const schema = told == nullptr ? nullptr : Fields(*told).Find("schema");
    if (schema != nullptr) {
      SetSchema(inner, "json_schema.schema", *schema, body,
                {"response_format", "json_schema", "schema"}, sampling);
    } else {
      inner.Fail("json_schema.schema", "must be a JSON Schema");
    }
  } else if (type != "text") {
    inner.Fail("type", "must be text, json_object or json_schema");
  }
  fields.Take(inner);
}

// vLLM's names of a form, each with `prefix` before it, in the object at `place`.
void ReadNamed(std::string_view body, Fields& fields, const std::string& prefix, Names place,
               v1::SamplingParams* sampling) {
  const std::string json = prefix + "json", regex = prefix + "regex", choice = prefix + "choice",
                    grammar = prefix + "grammar";
  if (const Json* const schema = fields.Find(json.c_str())) {
    place.push_back(json);
    SetSchema(fields, json, *schema, body, place, sampling);
  }
  if (auto text = fields.String(regex.c_str()); text && MayHave(fields, regex, *sampling)) {
    sampling->set_regex(*std::move(text));
  }
  if (auto text = fields.String(grammar.c_str()); text && MayHave(fields, grammar, *sampling)) {
    sampling->set_lark(*std::move(text));
  }
  auto texts = fields.Strings(choice.c_str());
  if (texts.empty() || !MayHave(fields, choice, *sampling)) return;
  sampling->mutable_choice()->Assign(texts.begin(), texts.end());
}

}  // namespace

void ReadOutputForm(std::string_view body, Fields& fields, v1::SamplingParams* sampling) {
  ReadResponseFormat(body, fields, sampling);
  ReadNamed(body, fields, "guided_", {}, sampling);
  const Json* const structured = fields.Object("structured_outputs");
  if (structured == nullptr) return;
  Fields inner(*structured, "structured_outputs.");
  ReadNamed(body, inner, "", {"structured_outputs"}, sampling);
  if (inner.Bool("json_object").value_or(false)) SetAnyObject(inner, "json_object", sampling);
  if (inner.Has("structural_tag"))
    inner.Fail("structural_tag", "must be left out: it is not known");
  fields.Take(inner);
}

}  // namespace tvq::gateway
