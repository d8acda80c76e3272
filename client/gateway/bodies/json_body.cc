#include "client/gateway/bodies/json_body.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/quoted.h"
#include "base/refusal.h"

namespace tvq::gateway {
namespace {

constexpr int kMaxDepth = 32;

constexpr std::string_view kLastRead = "; last read: '";
constexpr size_t kMostShown = 40;  // of what was read last

absl::string_view Absl(std::string_view text) { return {text.data(), text.size()}; }

// What a document has outside its texts.
struct Counts {
  int deepest =
      0;  // level of arrays and objects; the parser and the destructor would recurse as deep
  size_t items = 0;  // of arrays, and members of objects
  size_t members = 0;
  size_t arrays = 0;
  size_t objects = 0;
  size_t strings = 0;
};

Counts Count(std::string_view text) {
  Counts counts;
  int depth = 0;
  bool in_string = false, opened = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      in_string = c != '"';
      continue;
    }
    if (c == ' ' || c == '\n' || c == '\r' || c == '\t') continue;
    // One more than it has commas, unless it is empty.
    if (opened && c != ']' && c != '}') ++counts.items;
    opened = c == '[' || c == '{';
    if (c == '"') {
      in_string = true;
      ++counts.strings;
    } else if (opened) {
      counts.deepest = std::max(counts.deepest, ++depth);
      ++(c == '[' ? counts.arrays : counts.objects);
    } else if (c == ']' || c == '}') {
      --depth;
    } else if (c == ',') {
      ++counts.items;
    } else if (c == ':') {
      ++counts.members;
    }
  }
  return counts;
}

// Bytes that the allocator gives for an empty array or object, a text, a member with its name.
constexpr size_t kArrayBytes = 32, kObjectBytes = 64, kStringBytes = 48, kMemberBytes = 112;
// The parser's buffer, which doubles, beside the text; then one is read from the other.
constexpr size_t kTextCopies = 3;
// An array that doubles has its items three times.
constexpr size_t kItemBytes = 3 * sizeof(Json);

std::optional<int64_t> AsInt64(const Json& value) {
  if (value.is_number_unsigned()) {
    const auto number = value.get<uint64_t>();
    if (number > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) return std::nullopt;
    return static_cast<int64_t>(number);
  }
  if (value.is_number_integer()) return value.get<int64_t>();
  if (!value.is_number_float()) return std::nullopt;
  const auto number = value.get<double>();
  if (number != std::floor(number) || std::abs(number) > 9007199254740992.0) return std::nullopt;
  return static_cast<int64_t>(number);
}

// For messages: what a client sent in the place of something else.
std::string Shown(const Json& value) {
  if (value.is_string()) return Quoted(value.get_ref<const std::string&>());
  if (value.is_array()) return "a list";
  if (value.is_object()) return "an object";
  return value.dump();
}

// The library's words without its own names for the error and what it was parsing, and with the end
// of what it read alone, which may be a long text.
std::string WordsOf(const Json::parse_error& error) {
  std::string_view words = error.what();
  words.remove_prefix(std::min(words.find("line "), words.size()));
  const size_t read = std::min(words.find(kLastRead), words.size());
  std::string told(words.substr(0, read));
  const size_t what = told.find("syntax error while parsing ");
  const size_t dash = told.find(" - ", what);
  if (dash != std::string::npos) told.erase(what, dash + 3 - what);
  if (read == words.size()) return told;
  words.remove_prefix(read + kLastRead.size());
  const size_t end = std::min(words.rfind("'; expected "), words.size() - 1);
  told += words.substr(end + 1);
  words = words.substr(0, end);
  words.remove_prefix(words.size() - std::min(words.size(), kMostShown));
  return absl::StrCat(told, "; the last that was read is ", Quoted(words));
}

absl::Status NotJson(std::string_view body, const Json::parse_error& error) {
  if (body.empty()) {
    return Refused(Reason::kMessageInvalid, "the body is empty, must be a JSON object");
  }
  if (error.byte > body.size()) {
    return Refused(Reason::kMessageInvalid,
                   absl::StrCat("the body is not valid JSON: it ends at byte ", body.size(),
                                ", before it is complete"));
  }
  return Refused(Reason::kMessageInvalid,
                 absl::StrCat("the body is not valid JSON in UTF-8: ", WordsOf(error)));
}

}  // namespace

absl::StatusOr<Json> ParseObject(std::string_view body) {
  if (Count(body).deepest > kMaxDepth) {
    return Refused(Reason::kMessageInvalid, absl::StrCat("the body has more than ", kMaxDepth,
                                                         " levels of lists and objects"));
  }
  try {
    Json json = Json::parse(body);
    if (json.is_object()) return json;
    return Refused(Reason::kMessageInvalid, "the body must be a JSON object");
  } catch (const Json::parse_error& error) {
    return NotJson(body, error);
  } catch (const Json::exception&) {
    return Refused(Reason::kMessageInvalid, "the body has a number that is too large");
  }
}

size_t ParsingMemory(std::string_view body) {
  const Counts counts = Count(body);
  return counts.items * kItemBytes + counts.members * kMemberBytes + counts.arrays * kArrayBytes +
         counts.objects * kObjectBytes + counts.strings * kStringBytes + kTextCopies * body.size();
}

std::optional<int32_t> AsInt32(const Json& value) {
  const std::optional<int64_t> number = AsInt64(value);
  if (!number || *number < std::numeric_limits<int32_t>::min() ||
      *number > std::numeric_limits<int32_t>::max()) {
    return std::nullopt;
  }
  return static_cast<int32_t>(*number);
}

Fields::Fields(const Json& object, std::string prefix)
    : object_(object), prefix_(std::move(prefix)) {}

const Json* Fields::Find(const char* name) const {
  const auto it = object_.find(name);
  return it == object_.end() || it->is_null() ? nullptr : &*it;
}

void Fields::Fail(std::string_view name, std::string_view wanted) {
  if (!status_.ok()) return;
  status_ = Refused(Reason::kValueInvalid, absl::StrCat(prefix_, Absl(name)), wanted);
}

std::nullopt_t Fields::Wrong(std::string_view name, const Json* value, std::string_view wanted) {
  const std::string is = value == nullptr ? "is missing" : absl::StrCat("is ", Shown(*value));
  if (status_.ok()) Fail(name, absl::StrCat(is, ", ", Absl(wanted)));
  return std::nullopt;
}

std::optional<std::string> Fields::String(const char* name) {
  const Json* value = Find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_string()) return Wrong(name, value, "must be a string");
  return value->get<std::string>();
}

std::optional<bool> Fields::Bool(const char* name) {
  const Json* value = Find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_boolean()) return Wrong(name, value, "must be true or false");
  return value->get<bool>();
}

std::optional<int64_t> Fields::Int(const char* name) {
  const Json* value = Find(name);
  if (value == nullptr) return std::nullopt;
  const std::optional<int64_t> number = AsInt64(*value);
  if (!number) return Wrong(name, value, "must be an integer of 64 bits");
  return number;
}

std::optional<uint64_t> Fields::Bits64(const char* name) {
  const Json* value = Find(name);
  if (value != nullptr && value->is_number_unsigned()) return value->get<uint64_t>();
  const std::optional<int64_t> number = Int(name);
  if (!number) return std::nullopt;
  return static_cast<uint64_t>(*number);
}

std::optional<int32_t> Fields::Int32(const char* name) {
  const Json* value = Find(name);
  if (value == nullptr) return std::nullopt;
  const std::optional<int32_t> number = AsInt32(*value);
  if (!number) return Wrong(name, value, "must be an integer of 32 bits");
  return number;
}

std::optional<float> Fields::Float(const char* name) {
  const std::optional<double> number = Number(name);
  if (!number) return std::nullopt;
  // What is beyond a float's range, JSON's numbers being finite.
  if (std::isfinite(static_cast<float>(*number))) return static_cast<float>(*number);
  return Wrong(name, Find(name), "must be a number of 32 bits");
}

std::optional<double> Fields::Number(const char* name) {
  const Json* value = Find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number()) return Wrong(name, value, "must be a number");
  return value->get<double>();
}

std::vector<int32_t> Fields::Ints(const char* name) {
  std::vector<int32_t> numbers;
  const Json* value = Find(name);
  if (value == nullptr) return numbers;
  if (!value->is_array()) {
    Wrong(name, value, "must be a list of integers");
    return numbers;
  }
  numbers.reserve(value->size());
  for (const Json& item : *value) {
    const std::optional<int32_t> number = AsInt32(item);
    if (!number) {
      Wrong(absl::StrCat(name, "[", numbers.size(), "]"), &item, "must be an integer of 32 bits");
      return numbers;
    }
    numbers.push_back(*number);
  }
  return numbers;
}

std::vector<std::string> Fields::Strings(const char* name) {
  const Json* value = Find(name);
  if (value == nullptr) return {};
  if (value->is_string()) return {value->get<std::string>()};
  std::vector<std::string> strings;
  if (!value->is_array()) {
    Wrong(name, value, "must be a string or a list of strings");
    return strings;
  }
  for (const Json& item : *value) {
    if (!item.is_string()) {
      Wrong(absl::StrCat(name, "[", strings.size(), "]"), &item, "must be a string");
      return strings;
    }
    strings.push_back(item.get<std::string>());
  }
  return strings;
}

const Json* Fields::Object(const char* name) {
  const Json* value = Find(name);
  if (value == nullptr || value->is_object()) return value;
  Wrong(name, value, "must be an object");
  return nullptr;
}

}  // namespace tvq::gateway
