#include "server/sessions/record/record_json.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/json_fields.h"
#include "server/sessions/record/session_id.h"

namespace tvq {
namespace {

using nlohmann::json;

constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();
constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
// Versions and positions: far enough from the largest integer for what is added to them.
constexpr int64_t kMostCounted = int64_t{1} << 60;
constexpr int64_t kNever = -1;  // as a ttl
constexpr char kAnswerTail[] = "answer_tail";
constexpr char kAfterAnswer[] = "after_answer";
constexpr char kAppended[] = "appended_since";
constexpr char kSpecialTokens[] = "add_special_tokens";
// The most that a mark's object has beside its name and answer end, and the latter beside its tail.
constexpr size_t kMostMarkFraming =
    std::string_view(R"({"name":"","position":,"version":},)").size() + 2 * 19;
constexpr size_t kMostAnswerFraming =
    std::string_view(R"("after_answer":64,"answer_tail":"","appended_since":true,)").size();

std::string Id(JsonFields& fields, const char* name, bool may_be_empty) {
  std::string id = fields.String(name);
  if (!IsSessionId(id) && !(may_be_empty && id.empty())) {
    fields.Fail(name, "must be 32 hexadecimal digits");
  }
  return id;
}

absl::Time Time(JsonFields& fields, const char* name) {
  return absl::FromUnixNanos(fields.Int(name, kLeast, kMost));
}

// Of a session or mark. Its bytes, in hexadecimal, may begin or end within a character.
std::optional<AnswerEnd> ReadAnswerEnd(JsonFields& fields) {
  if (!fields.Has(kAnswerTail)) return std::nullopt;
  const std::string digits = fields.String(kAnswerTail);
  const bool hex =
      std::all_of(digits.begin(), digits.end(), [](char c) { return absl::ascii_isxdigit(c); });
  if (!hex || digits.size() % 2 != 0 || digits.size() > 2 * AnswerEnd::kMaxTail) {
    fields.Fail(kAnswerTail,
                absl::StrCat("must be at most ", AnswerEnd::kMaxTail, " bytes in hexadecimal"));
    return std::nullopt;
  }
  const int64_t after = fields.Int(kAfterAnswer, 0, static_cast<int64_t>(digits.size() / 2));
  return AnswerEnd{.tail = absl::HexStringToBytes(digits),
                   .after = static_cast<size_t>(after),
                   .appended = fields.Has(kAppended) && fields.Bool(kAppended)};
}

void Write(const std::optional<AnswerEnd>& end, json* object) {
  if (!end) return;
  (*object)[kAnswerTail] = absl::BytesToHexString(end->tail);
  (*object)[kAfterAnswer] = end->after;
  if (end->appended) (*object)[kAppended] = true;
}

std::vector<MarkRecord> Marks(JsonFields& fields, const std::string& where, int64_t version) {
  std::vector<MarkRecord> marks;
  for (const json& entry : fields.Array("marks")) {
    JsonFields mark(entry, absl::StrCat(where, ": mark ", marks.size()));
    marks.push_back({.name = mark.String("name"),
                     .version = mark.Int("version", 1, version),
                     .position = mark.Int("position", 0, kMostCounted),
                     .answer_end = ReadAnswerEnd(mark)});
    fields.Update(mark.status());
  }
  return marks;
}

}  // namespace

json ToJson(const SessionRecord& record) {
  json marks = json::array();
  for (const MarkRecord& mark : record.marks) {
    json& entry = marks.emplace_back(
        json{{"name", mark.name}, {"version", mark.version}, {"position", mark.position}});
    Write(mark.answer_end, &entry);
  }
  const bool forever = record.ttl == absl::InfiniteDuration();
  json object = {{"id", record.id},
                 {"owner", record.owner},
                 {"model", record.model},
                 {"label", record.label},
                 {"parent_id", record.parent_id},
                 {"parent_version", record.parent_version},
                 {"version", record.version},
                 {"persisted_version", record.persisted_version},
                 {"position", record.position},
                 {"created_ns", absl::ToUnixNanos(record.created)},
                 {"last_used_ns", absl::ToUnixNanos(record.last_used)},
                 {"ttl_ns", forever ? kNever : absl::ToInt64Nanoseconds(record.ttl)},
                 {"has_transcript", record.has_transcript},
                 {"marks", std::move(marks)},
                 {"creation_key", record.creation_key}};
  if (!record.creation_asked.empty()) object["creation_asked"] = record.creation_asked;
  if (!record.add_special_tokens) object[kSpecialTokens] = false;
  Write(record.answer_end, &object);
  return object;
}

int64_t MostJsonBytes(const MarkRecord& mark) {
  size_t bytes = kMostMarkFraming;
  for (const char c : mark.name) {
    // A control character as \u001f at worst.
    const bool control = static_cast<unsigned char>(c) < 0x20;
    bytes += control ? 6 : c == '"' || c == '\\' ? 2 : 1;
  }
  if (mark.answer_end) bytes += kMostAnswerFraming + 2 * mark.answer_end->tail.size();
  return static_cast<int64_t>(bytes);
}

absl::StatusOr<SessionRecord> RecordFromJson(const json& object, const std::string& where) {
  JsonFields fields(object, where);
  SessionRecord record;
  record.id = Id(fields, "id", false);
  record.owner = fields.String("owner");
  record.model = fields.String("model");
  record.label = fields.String("label");
  record.parent_id = Id(fields, "parent_id", true);
  record.parent_version = fields.Int("parent_version", 0, kMostCounted);
  record.version = fields.Int("version", 1, kMostCounted);
  record.persisted_version = fields.Int("persisted_version", 0, record.version);
  record.position = fields.Int("position", 0, kMostCounted);
  record.created = Time(fields, "created_ns");
  record.last_used = Time(fields, "last_used_ns");
  const int64_t ttl = fields.Int("ttl_ns", kNever, kMost);
  record.ttl = ttl == kNever ? absl::InfiniteDuration() : absl::Nanoseconds(ttl);
  record.has_transcript = fields.Bool("has_transcript");
  if (fields.Has(kSpecialTokens)) record.add_special_tokens = fields.Bool(kSpecialTokens);
  record.answer_end = ReadAnswerEnd(fields);
  record.marks = Marks(fields, where, record.version);
  record.creation_key = fields.String("creation_key");
  if (fields.Has("creation_asked")) record.creation_asked = fields.String("creation_asked");
  if (!fields.status().ok()) return fields.status();
  return record;
}

}  // namespace tvq
