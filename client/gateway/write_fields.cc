// Writes two files that the gateway serves, with fields of SamplingParams as JSON Schema. The build
// runs it.
// - openapi.json: that of the sources. Each schema with "x-sampling" gets the fields, but not those
//   that "x-sampling" lists.
// - index.html: the page's. Its element of JSON gets the fields that the page has controls for.
#include <google/protobuf/descriptor.h>

#include <algorithm>
#include <fstream>
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "absl/strings/str_replace.h"
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

std::string OpenApi(const std::string& source) {
  Json document = Json::parse(source);
  Fill(document);
  return document.dump(1) + "\n";
}

// By name; nothing if one is no field.
template <typename Names>
std::optional<Json> Named(const Names& names) {
  Json fields = Json::object();
  for (const std::string& name : names) {
    const auto* const field = v1::SamplingParams::descriptor()->FindFieldByName(name);
    if (field == nullptr) return std::nullopt;
    fields[name] = SchemaOf(*field);
  }
  return fields;
}

// Nothing if the page has no place for the fields, or controls for what is none.
std::optional<std::string> Page(std::string html) {
  constexpr std::string_view kElement = "type=\"application/json\">";
  const auto& controls = v1::SamplingParams::descriptor()->options().GetExtension(v1::controls);
  const auto first = Named(controls.first()), more = Named(controls.more());
  const size_t at = html.find(kElement);
  if (!first || !more || at == std::string::npos) return std::nullopt;
  // No text may end the element.
  const std::string json = Json{{"first", *first}, {"more", *more}}.dump();
  return html.insert(at + kElement.size(), absl::StrReplaceAll(json, {{"<", "\\u003c"}}));
}

std::string ReadFile(const char* path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

bool WriteFile(const std::string& path, const std::string& text) {
  std::ofstream out(path);
  out << text;
  out.close();
  if (!out) std::cerr << path << ": cannot be written\n";
  return static_cast<bool>(out);
}

bool Write(const char* openapi, const char* index, const std::string& folder) {
  const std::optional<std::string> page = Page(ReadFile(index));
  if (!page) std::cerr << index << ": no element for the fields, or a control of no field\n";
  return page && WriteFile(folder + "/openapi.json", OpenApi(ReadFile(openapi))) &&
         WriteFile(folder + "/index.html", *page);
}

}  // namespace
}  // namespace tvq::gateway

// openapi.json, index.html, the folder to write them to.
int main(int argc, char** argv) {
  return argc == 4 && tvq::gateway::Write(argv[1], argv[2], argv[3]) ? 0 : 1;
}
