// Writes the document that the gateway serves as /openapi.json: openapi.json of the sources, with
// the fields of SamplingParams where a schema has "x-sampling", a list of those that it has not.
// The build runs it.
#include <google/protobuf/descriptor.h>

#include <algorithm>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>

#include "tvq/v1/field.pb.h"
#include "tvq/v1/generation.pb.h"

namespace tvq::gateway {
namespace {

using google::protobuf::FieldDescriptor;
using Json = nlohmann::ordered_json;

constexpr char kPlace[] = "x-sampling";

const char* TypeOf(const FieldDescriptor& field) {
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_FLOAT:
      return "number";
    case FieldDescriptor::CPPTYPE_STRING:
      return "string";
    case FieldDescriptor::CPPTYPE_BOOL:
      return "boolean";
    default:
      return "integer";
  }
}

Json SchemaOf(const FieldDescriptor& field) {
  const v1::Field& told = field.options().GetExtension(v1::field);
  const Json one = {{"type", TypeOf(field)}};
  Json schema;
  if (field.is_map()) {  // by token id
    schema = {{"type", {"object", "null"}},
              {"propertyNames", {{"pattern", "^(0|-?[1-9][0-9]*)$"}}},
              {"additionalProperties", {{"type", "number"}}}};
  } else if (field.is_repeated() && field.cpp_type() == FieldDescriptor::CPPTYPE_STRING) {
    schema["anyOf"] = {one, {{"type", "array"}, {"items", one}}, {{"type", "null"}}};
  } else if (field.is_repeated()) {
    schema = {{"type", {"array", "null"}}, {"items", one}};
  } else {
    schema["type"] = {TypeOf(field), "null"};
  }
  const bool whole = field.cpp_type() != FieldDescriptor::CPPTYPE_FLOAT;
  const auto number = [whole](double value) {
    return whole ? Json(static_cast<int64_t>(value)) : Json(value);
  };
  if (told.has_min())
    schema[told.above_min() ? "exclusiveMinimum" : "minimum"] = number(told.min());
  if (told.has_max()) schema["maximum"] = number(told.max());
  if (told.has_otherwise()) schema["default"] = number(told.otherwise());
  schema["description"] = told.help();
  return schema;
}

// Fills all places of a document; a property that stands there already stays as it is.
void Fill(Json& json) {
  for (auto& [name, value] : json.items()) {
    if (value.is_structured()) Fill(value);
  }
  if (!json.is_object() || !json.contains(kPlace)) return;
  const Json left_out = json[kPlace];
  json.erase(kPlace);
  Json& properties = json["properties"];
  const auto& type = *v1::SamplingParams::descriptor();
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor& field = *type.field(i);
    const bool is_left_out =
        std::find(left_out.begin(), left_out.end(), field.name()) != left_out.end();
    if (is_left_out || properties.contains(field.name())) continue;
    properties[field.name()] = SchemaOf(field);
  }
}

}  // namespace
}  // namespace tvq::gateway

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  std::ifstream in(argv[1]);
  nlohmann::ordered_json document = nlohmann::ordered_json::parse(in);
  tvq::gateway::Fill(document);
  std::ofstream out(argv[2]);
  out << document.dump(1) << "\n";
  out.close();
  if (!out) std::cerr << argv[2] << ": cannot be written\n";
  return out ? 0 : 1;
}
