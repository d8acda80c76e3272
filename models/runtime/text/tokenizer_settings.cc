#include "models/runtime/text/tokenizer_settings.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/json.h"
#include "base/read_file.h"

namespace tvq {
namespace {

using nlohmann::json;

constexpr int64_t kLargestSettingsBytes = 64 << 20;  // some list every added token
constexpr int64_t kLargestTemplateBytes = 1 << 20;
constexpr size_t kMostTemplates = 64;
constexpr JsonLimits kLimits = {.depth = 32, .values = 8'000'000};
constexpr const char* kNamedTokens[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                        "pad_token", "cls_token", "mask_token"};

absl::Status Wrong(const std::string& file, const std::string& field, const std::string& wanted) {
  return absl::InvalidArgumentError(absl::StrCat(file, ": field \"", field, "\" must be ", wanted));
}

// Adds a template; it replaces one of the same name.
void Put(ChatTemplateSource source, TokenizerSettings* settings) {
  auto& all = settings->chat_templates;
  const auto same = std::find_if(all.begin(), all.end(),
                                 [&](const auto& other) { return other.name == source.name; });
  if (same == all.end()) {
    all.push_back(std::move(source));
  } else {
    *same = std::move(source);
  }
}

// Adds the templates of a field: a string, or a list of objects that each have a name.
absl::Status PutTemplates(const json& value, const std::string& file, TokenizerSettings* settings) {
  const std::string label = absl::StrCat(file, ": chat_template");
  if (value.is_string()) {
    Put({"default", label, value.get<std::string>()}, settings);
    return absl::OkStatus();
  }
  if (!value.is_array() || value.size() > kMostTemplates) {
    return Wrong(file, "chat_template", "a string, or a list of at most 64 templates with names");
  }
  for (const json& item : value) {
    const bool complete = item.is_object() && item.contains("name") && item.contains("template") &&
                          item["name"].is_string() && item["template"].is_string();
    if (!complete) {
      return Wrong(file, "chat_template", "a list of objects with a \"name\" and a \"template\"");
    }
    const auto name = item["name"].get<std::string>();
    Put({name, absl::StrCat(label, " ", name), item["template"].get<std::string>()}, settings);
  }
  return absl::OkStatus();
}

// The JSON object of a file; nullopt if there is no such file.
absl::StatusOr<std::optional<json>> ReadObject(const std::string& path) {
  absl::StatusOr<std::string> text = ReadFile(path, kLargestSettingsBytes);
  if (absl::IsNotFound(text.status())) return std::optional<json>();
  if (!text.ok()) return text.status();
  absl::StatusOr<json> object = ParseJsonObject(*text, path, kLimits);
  if (!object.ok()) return object.status();
  return std::optional<json>(*std::move(object));
}

const json* Find(const json& object, const char* name) {
  const auto field = object.find(name);
  return field == object.end() || field->is_null() ? nullptr : &*field;
}

// Reads a file of settings; what it says replaces what was read from another file before.
absl::Status ReadSettings(const std::string& path, TokenizerSettings* settings) {
  absl::StatusOr<std::optional<json>> object = ReadObject(path);
  if (!object.ok()) return object.status();
  if (!*object) return absl::OkStatus();
  json named = json::parse(settings->named_tokens);
  for (const char* name : kNamedTokens) {
    const json* token = Find(**object, name);
    if (token == nullptr) continue;
    if (token->is_object()) token = Find(*token, "content");  // an added token with its options
    if (token == nullptr || !token->is_string()) {
      return Wrong(path, name, "a string, or an object with a string \"content\"");
    }
    named[name] = *token;
  }
  settings->named_tokens = named.dump(-1, ' ', false, json::error_handler_t::replace);
  if (named.contains("bos_token")) settings->bos_token = named["bos_token"].get<std::string>();
  if (const json* add = Find(**object, "add_bos_token"); add != nullptr) {
    if (!add->is_boolean()) return Wrong(path, "add_bos_token", "true or false");
    settings->add_bos_token = add->get<bool>();
  }
  const json* templates = Find(**object, "chat_template");
  return templates == nullptr ? absl::OkStatus() : PutTemplates(*templates, path, settings);
}

absl::Status ReadTemplate(const std::string& path, const std::string& name,
                          TokenizerSettings* settings) {
  absl::StatusOr<std::string> source = ReadFile(path, kLargestTemplateBytes);
  if (absl::IsNotFound(source.status())) return absl::OkStatus();
  if (!source.ok()) return source.status();
  Put({name, path, *std::move(source)}, settings);
  return absl::OkStatus();
}

absl::Status ReadMoreTemplates(const std::string& folder, TokenizerSettings* settings) {
  std::error_code error;
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    if (entry.path().extension() == ".jinja") files.push_back(entry.path());
  }
  if (files.size() > kMostTemplates) {
    return absl::InvalidArgumentError(absl::StrCat(folder, " has more than 64 templates"));
  }
  std::sort(files.begin(), files.end());
  for (const std::filesystem::path& file : files) {
    const absl::Status read = ReadTemplate(file.string(), file.stem().string(), settings);
    if (!read.ok()) return read;
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<TokenizerSettings> ReadTokenizerSettings(const std::string& dir) {
  TokenizerSettings settings;
  absl::Status read = ReadSettings(absl::StrCat(dir, "/special_tokens_map.json"), &settings);
  read.Update(ReadSettings(absl::StrCat(dir, "/tokenizer_config.json"), &settings));
  if (!read.ok()) return read;
  const std::string json_path = absl::StrCat(dir, "/chat_template.json");
  absl::StatusOr<std::optional<json>> object = ReadObject(json_path);
  if (!object.ok()) return object.status();
  if (const json* templates = *object ? Find(**object, "chat_template") : nullptr) {
    read.Update(PutTemplates(*templates, json_path, &settings));
  }
  read.Update(ReadTemplate(absl::StrCat(dir, "/chat_template.jinja"), "default", &settings));
  read.Update(ReadMoreTemplates(absl::StrCat(dir, "/additional_chat_templates"), &settings));
  if (!read.ok()) return read;
  return settings;
}

}  // namespace tvq
