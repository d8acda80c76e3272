#include "models/runtime/config/config.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/json.h"
#include "base/quoted.h"
#include "base/read_file.h"

namespace tvq {
namespace {

using nlohmann::json;

constexpr int64_t kLargestConfigBytes = 1 << 20;  // real ones have a few KB
// Far above any real vocabulary; bounds the tables that are made before the weights are seen.
constexpr int64_t kLargestVocabulary = 1 << 24;
constexpr int64_t kLargestFirstId = 1 << 16;
constexpr std::array<const char*, 7> kTokenizerTypes = {
    "bytes", "sentencepiece", "huggingface", "rwkv", "characters", "pixels", "ids"};

constexpr char kPythonFloat[] = "__float__";

// Replaces each Infinity outside strings, which Python writes and JSON does not have, by the object
// that newer files have in its place.
std::string WithoutBareInfinity(std::string_view text) {
  constexpr char kBare[] = "Infinity";
  std::string result;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    if (in_string && text[i] == '\\' && i + 1 < text.size()) {
      result += text[i++];
    } else if (text[i] == '"') {
      in_string = !in_string;
    } else if (!in_string && text.substr(i).starts_with(kBare)) {
      result += absl::StrCat("{\"", kPythonFloat, "\": \"", kBare, "\"}");
      i += sizeof(kBare) - 2;
      continue;
    }
    result += text[i];
  }
  return result;
}

// The `tokenizer` object for the tokenizer file that lies in the directory; type ids if none does.
absl::StatusOr<json> FoundTokenizer(const std::string& dir) {
  const auto has = [&](const char* file) {
    std::error_code none;
    return std::filesystem::exists(std::filesystem::path(dir) / file, none);
  };
  constexpr std::pair<const char*, const char*> kFiles[] = {{"huggingface", "tokenizer.json"},
                                                            {"rwkv", "rwkv_vocab_v20230424.txt"}};
  for (const auto& [type, file] : kFiles) {
    if (has(file)) return json{{"type", type}, {"file", file}};
  }
  // Files of older directories, which the transformers library converts when it loads them.
  for (const char* file : {"tokenizer.model", "vocab.json", "vocab.txt", "spiece.model"}) {
    if (!has(file)) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        dir, " has ", file,
        " and no tokenizer.json, which is needed to read and write text: "
        "transformers makes it by AutoTokenizer.from_pretrained(DIR).save_pretrained(DIR)"));
  }
  return json{{"type", "ids"}};
}

// An error if `dir` is a file. For a GGUF file it names the script that makes a model directory.
absl::Status CheckDirectory(const std::string& dir) {
  std::error_code none;
  if (!std::filesystem::is_regular_file(dir, none)) return absl::OkStatus();
  if (dir.ends_with(".pth")) {
    return absl::InvalidArgumentError(
        absl::StrCat(dir,
                     " is a file of PyTorch, must be a model directory: for a file of RWKV-7 "
                     "scripts/import-rwkv ",
                     dir, " DIR makes one of it"));
  }
  if (!dir.ends_with(".gguf")) {
    return absl::InvalidArgumentError(absl::StrCat(dir, " is a file, must be a model directory"));
  }
  return absl::InvalidArgumentError(
      absl::StrCat(dir, " is a GGUF file, must be a model directory: scripts/import-gguf ", dir,
                   " DIR makes one of it"));
}

// The value as messages show it: objects and arrays only by their kind.
std::string Shown(const json& value) {
  if (value.is_string()) return Quoted(value.get_ref<const std::string&>());
  if (value.is_object()) return "an object";
  if (value.is_array()) return "an array";
  return value.dump();
}

// JSON's 3.0 is the integer 3, as JSON Schema has it.
std::optional<int64_t> AsInteger(const json& value) {
  constexpr double kExact = 9007199254740992.0;  // 2^53: doubles up to here are exact integers
  if (value.is_number_unsigned()) {
    const uint64_t number = value.get<uint64_t>();
    if (number > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) return std::nullopt;
    return static_cast<int64_t>(number);
  }
  if (value.is_number_integer()) return value.get<int64_t>();
  if (!value.is_number_float()) return std::nullopt;
  const double number = value.get<double>();
  if (std::abs(number) > kExact || number != std::floor(number)) return std::nullopt;
  return static_cast<int64_t>(number);
}

// The value with integral numbers as integers and without fields that are null. nlohmann::json
// sorts an object's fields by key. The parser limits the depth.
json Canonicalized(const json& value) {
  if (const std::optional<int64_t> integer = AsInteger(value)) return *integer;
  if (!value.is_structured()) return value;
  json result = value.is_object() ? json::object() : json::array();
  for (const auto& [key, element] : value.items()) {
    if (value.is_array()) {
      result.push_back(Canonicalized(element));
    } else if (!element.is_null()) {
      result[key] = Canonicalized(element);
    }
  }
  return result;
}

absl::StatusOr<std::optional<int32_t>> SpecialId(const Config& config, std::string_view name,
                                                 int64_t vocab_size) {
  if (!config.Has(name)) return std::optional<int32_t>();
  absl::StatusOr<int64_t> id = config.Int(name, 0, vocab_size - 1);
  if (!id.ok()) return id.status();
  return std::optional<int32_t>(static_cast<int32_t>(*id));
}

}  // namespace

Config::Config(std::shared_ptr<const json> object, std::string source, std::string prefix)
    : object_(std::move(object)), source_(std::move(source)), prefix_(std::move(prefix)) {}

absl::StatusOr<Config> Config::Load(const std::string& dir) {
  if (absl::Status s = CheckDirectory(dir); !s.ok()) return s;
  const std::string path = absl::StrCat(dir, "/config.json");
  absl::StatusOr<std::string> text = ReadFile(path, kLargestConfigBytes);
  if (!text.ok()) return text.status();
  absl::StatusOr<json> object = ParseJsonObject(WithoutBareInfinity(*text), path, JsonLimits{});
  if (!object.ok()) return object.status();
  const auto tokenizer = object->find("tokenizer");
  if (tokenizer == object->end() || tokenizer->is_null()) {
    absl::StatusOr<json> found = FoundTokenizer(dir);
    if (!found.ok()) return found.status();
    (*object)["tokenizer"] = *std::move(found);
  }
  return Config(std::make_shared<const json>(*std::move(object)), path, "");
}

absl::StatusOr<Config> Config::Parse(std::string_view text, std::string source_name) {
  absl::StatusOr<json> object = ParseJsonObject(text, source_name, JsonLimits{});
  if (!object.ok()) return object.status();
  return Config(std::make_shared<const json>(*std::move(object)), std::move(source_name), "");
}

std::string Config::Canonical() const {
  // dump() fails on text that is not UTF-8 unless it may write replacement characters.
  return Canonicalized(*object_).dump(-1, ' ', false, json::error_handler_t::replace);
}

const json* Config::Find(std::string_view name) const {
  const auto field = object_->find(std::string(name));
  return field == object_->end() || field->is_null() ? nullptr : &*field;
}

bool Config::Has(std::string_view name) const { return Find(name) != nullptr; }

bool Config::Null(std::string_view name) const {
  const auto field = object_->find(std::string(name));
  return field != object_->end() && field->is_null();
}

absl::Status Config::Error(std::string_view name, std::string_view wanted) const {
  const json* value = Find(name);
  const std::string found = value == nullptr ? "is missing" : absl::StrCat("is ", Shown(*value));
  return absl::InvalidArgumentError(absl::StrCat(source_, ": field \"", prefix_, std::string(name),
                                                 "\" ", found, "; it must be ",
                                                 std::string(wanted)));
}

absl::StatusOr<int64_t> Config::Int(std::string_view name, int64_t min, int64_t max,
                                    std::optional<int64_t> fallback) const {
  const json* value = Find(name);
  if (value == nullptr && fallback.has_value()) return *fallback;
  const std::optional<int64_t> number = value == nullptr ? std::nullopt : AsInteger(*value);
  if (!number.has_value() || *number < min || *number > max) {
    return Error(name, max == std::numeric_limits<int64_t>::max()
                           ? absl::StrCat("an integer of at least ", min)
                           : absl::StrCat("an integer from ", min, " to ", max));
  }
  return *number;
}

absl::StatusOr<double> Config::Number(std::string_view name, double min, double max,
                                      std::optional<double> fallback) const {
  const json* value = Find(name);
  if (value == nullptr && fallback.has_value()) return *fallback;
  const bool fits = value != nullptr && value->is_number() && value->get<double>() >= min &&
                    value->get<double>() <= max;
  if (!fits) {
    return Error(name, max == std::numeric_limits<double>::max()
                           ? absl::StrCat("a number of at least ", min)
                           : absl::StrCat("a number from ", min, " to ", max));
  }
  return value->get<double>();
}

absl::StatusOr<bool> Config::Bool(std::string_view name, std::optional<bool> fallback) const {
  const json* value = Find(name);
  if (value == nullptr && fallback.has_value()) return *fallback;
  if (value == nullptr || !value->is_boolean()) return Error(name, "true or false");
  return value->get<bool>();
}

absl::StatusOr<std::string> Config::String(std::string_view name,
                                           std::optional<std::string> fallback) const {
  const json* value = Find(name);
  if (value == nullptr && fallback.has_value()) return *std::move(fallback);
  if (value == nullptr || !value->is_string()) return Error(name, "a string");
  return value->get<std::string>();
}

absl::StatusOr<std::vector<std::string>> Config::Strings(std::string_view name) const {
  std::vector<std::string> strings;
  const json* value = Find(name);
  if (value == nullptr) return strings;
  constexpr char kWanted[] = "a list of strings that are not empty";
  if (!value->is_array()) return Error(name, kWanted);
  for (const json& item : *value) {
    if (!item.is_string() || item.get_ref<const std::string&>().empty()) {
      return Error(name, kWanted);
    }
    strings.push_back(item.get<std::string>());
  }
  return strings;
}

absl::StatusOr<std::vector<double>> Config::Numbers(std::string_view name, double min,
                                                    double max) const {
  std::vector<double> numbers;
  const json* value = Find(name);
  if (value == nullptr) return numbers;
  const auto wrong = [&] {
    return Error(name, absl::StrCat("a list of numbers from ", min, " to ", max));
  };
  if (!value->is_array()) return wrong();
  for (const json& item : *value) {
    const bool infinite = item == json{{kPythonFloat, "Infinity"}};
    if (!infinite && !item.is_number()) return wrong();
    const double number = infinite ? std::numeric_limits<double>::infinity() : item.get<double>();
    if (!(number >= min && number <= max)) return wrong();
    numbers.push_back(number);
  }
  return numbers;
}

absl::StatusOr<std::vector<int32_t>> Config::Ids(std::string_view name, int64_t vocab_size) const {
  std::vector<int32_t> ids;
  const json* value = Find(name);
  if (value == nullptr) return ids;
  const json list = value->is_array() ? *value : json::array({*value});
  for (const json& item : list) {
    const std::optional<int64_t> id = AsInteger(item);
    if (!id || *id < 0 || *id >= vocab_size) {
      return Error(name,
                   absl::StrCat("an integer from 0 to ", vocab_size - 1, ", or a list of them"));
    }
    ids.push_back(static_cast<int32_t>(*id));
  }
  return ids;
}

absl::StatusOr<std::vector<std::array<int64_t, 2>>> Config::Pairs(std::string_view name,
                                                                  int64_t first,
                                                                  int64_t second) const {
  std::vector<std::array<int64_t, 2>> pairs;
  const json* value = Find(name);
  if (value == nullptr) return pairs;
  const auto wrong = [&] {
    return Error(name, absl::StrCat("a list of pairs [a, b] of integers, a from 0 to ", first - 1,
                                    " and b from 0 to ", second - 1));
  };
  if (!value->is_array()) return wrong();
  for (const json& item : *value) {
    if (!item.is_array() || item.size() != 2) return wrong();
    const std::optional<int64_t> a = AsInteger(item[0]), b = AsInteger(item[1]);
    if (!a || !b || *a < 0 || *a >= first || *b < 0 || *b >= second) return wrong();
    pairs.push_back({*a, *b});
  }
  return pairs;
}

absl::StatusOr<std::vector<Config>> Config::Objects(std::string_view name) const {
  std::vector<Config> objects;
  const json* value = Find(name);
  if (value == nullptr) return objects;
  if (!value->is_array()) return Error(name, "a list of objects");
  for (const json& item : *value) {
    if (!item.is_object()) return Error(name, "a list of objects");
    objects.push_back(Config(std::shared_ptr<const json>(object_, &item), source_,
                             absl::StrCat(prefix_, std::string(name), "[", objects.size(), "].")));
  }
  return objects;
}

absl::StatusOr<Config> Config::Object(std::string_view name) const {
  const json* value = Find(name);
  if (value == nullptr || !value->is_object()) return Error(name, "an object");
  // Shares ownership of the whole document.
  return Config(std::shared_ptr<const json>(object_, value), source_,
                absl::StrCat(prefix_, std::string(name), "."));
}

Config Config::Completed(const Config& other, std::span<const char* const> names) const {
  json completed = *object_;
  for (const char* name : names) {
    const json* value = other.Find(name);
    if (value != nullptr && !Has(name)) completed[name] = *value;
  }
  return Config(std::make_shared<const json>(std::move(completed)), source_, prefix_);
}

Config Config::Completed(const Config& other) const {
  std::vector<const char*> names;
  for (const auto& [name, value] : other.object_->items()) names.push_back(name.c_str());
  return Completed(other, names);
}

Config Config::With(std::string_view name, const json& value) const {
  json changed = *object_;
  changed[std::string(name)] = value;
  return Config(std::make_shared<const json>(std::move(changed)), source_, prefix_);
}

absl::StatusOr<TokenizerConfig> Config::Tokenizer() const {
  TokenizerConfig result;
  absl::StatusOr<std::string> type = String("type");
  if (!type.ok()) return type.status();
  result.type = *std::move(type);
  bool known = false;
  for (const char* candidate : kTokenizerTypes) known = known || result.type == candidate;
  if (!known) return Error("type", absl::StrCat("one of ", absl::StrJoin(kTokenizerTypes, ", ")));

  if (result.type != "bytes" && result.type != "pixels" && result.type != "ids") {
    absl::StatusOr<std::string> file = String("file");
    if (!file.ok()) return file.status();
    absl::Status plain =
        CheckPlainFileName(absl::StrCat(source_, ": field \"", prefix_, "file\""), *file);
    if (!plain.ok()) return plain;
    result.file = *std::move(file);
  }
  if (result.type == "characters") {
    absl::StatusOr<int64_t> first_id = Int("first_id", 0, kLargestFirstId, result.first_id);
    if (!first_id.ok()) return first_id.status();
    result.first_id = *first_id;
  }
  if (result.type == "pixels") {
    constexpr int64_t kLargestSide = 65536;
    const std::pair<const char*, int64_t*> fields[] = {{"height", &result.height},
                                                       {"width", &result.width},
                                                       {"channels", &result.channels},
                                                       {"levels", &result.levels}};
    for (const auto& [name, target] : fields) {
      absl::StatusOr<int64_t> value = Int(name, 1, kLargestSide);
      if (!value.ok()) return value.status();
      *target = *value;
    }
  }
  return result;
}

absl::StatusOr<CommonConfig> Config::Common() const {
  CommonConfig result;
  absl::StatusOr<std::string> model_type = String("model_type");
  if (!model_type.ok()) return model_type.status();
  result.model_type = *std::move(model_type);

  constexpr int64_t kLargestChunk = 1 << 20;
  const std::tuple<const char*, int64_t, int64_t, std::optional<int64_t>, int64_t*> integers[] = {
      {"vocab_size", 1, kLargestVocabulary, std::nullopt, &result.vocab_size},
      {"prefill_chunk", 1, kLargestChunk, result.prefill_chunk, &result.prefill_chunk},
      {Has("max_position") ? "max_position" : "max_position_embeddings", 0,
       std::numeric_limits<int64_t>::max(), result.max_position, &result.max_position}};
  for (const auto& [name, min, max, fallback, target] : integers) {
    absl::StatusOr<int64_t> value = Int(name, min, max, fallback);
    if (!value.ok()) return value.status();
    *target = *value;
  }

  const std::pair<const char*, std::optional<int32_t>*> specials[] = {
      {"pad_token_id", &result.pad_token_id},
      {"bos_token_id", &result.bos_token_id},
      {"unk_token_id", &result.unk_token_id}};
  for (const auto& [name, target] : specials) {
    // Some config.json files use -1 to say that there is no pad token.
    if (target == &result.pad_token_id && Int(name, -1, -1).ok()) continue;
    absl::StatusOr<std::optional<int32_t>> id = SpecialId(*this, name, result.vocab_size);
    if (!id.ok()) return id.status();
    *target = *id;
  }

  const absl::StatusOr<std::vector<int32_t>> ends = Ids("eos_token_id", result.vocab_size);
  if (!ends.ok()) return ends.status();
  if (!ends->empty()) {
    result.eos_token_id = ends->front();
    result.more_end_ids.assign(ends->begin() + 1, ends->end());
  }

  absl::StatusOr<Config> object = Object("tokenizer");
  if (!object.ok()) return object.status();
  absl::StatusOr<TokenizerConfig> tokenizer = object->Tokenizer();
  if (!tokenizer.ok()) return tokenizer.status();
  result.tokenizer = *std::move(tokenizer);
  return result;
}

}  // namespace tvq
