#include "server/sessions/record_json.h"

#include <limits>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "server/sessions/json_fields.h"
#include "server/sessions/session_id.h"

namespace tvq {
namespace {

using nlohmann::json;

constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();
constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
// Versions and positions: far enough from the largest integer for what is added to them.
constexpr int64_t kMostCounted = int64_t{1} << 60;
constexpr int64_t kNever = -1;  // as a ttl

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

std::vector<MarkRecord> Marks(JsonFields& fields, const std::string& where, int64_t version) {
  std::vector<MarkRecord> marks;
  for (const json& entry : fields.Array("marks")) {
    JsonFields mark(entry, absl::StrCat(where, ": mark ", marks.size()));
    marks.push_back({mark.String("name"), mark.Int("version", 1, version),
                     mark.Int("position", 0, kMostCounted)});
    fields.Update(mark.status());
  }
  return marks;
}

}  // namespace

json ToJson(const SessionRecord& record) {
  json marks = json::array();
  for (const MarkRecord& mark : record.marks) {
    marks.push_back({{"name", mark.name}, {"version", mark.version}, {"position", mark.position}});
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
  return object;
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
  record.marks = Marks(fields, where, record.version);
  record.creation_key = fields.String("creation_key");
  if (fields.Has("creation_asked")) record.creation_asked = fields.String("creation_asked");
  if (!fields.status().ok()) return fields.status();
  return record;
}

}  // namespace tvq
