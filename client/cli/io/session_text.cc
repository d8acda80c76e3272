#include "client/cli/io/session_text.h"

#include <algorithm>
#include <array>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cli/io/terminal.h"

namespace tvq::cli {
namespace {

absl::Time ToTime(const google::protobuf::Timestamp& time) {
  return absl::FromUnixSeconds(time.seconds()) + absl::Nanoseconds(time.nanos());
}

std::string TimeText(const google::protobuf::Timestamp& time) {
  return absl::FormatTime(absl::RFC3339_sec, ToTime(time), absl::UTCTimeZone());
}

// The largest unit alone: 3s, 12m, 5h, 2d.
std::string Age(absl::Duration age) {
  const int64_t seconds = std::max<int64_t>(0, absl::ToInt64Seconds(age));
  if (seconds < 60) return absl::StrCat(seconds, "s");
  if (seconds < 3600) return absl::StrCat(seconds / 60, "m");
  if (seconds < 86400) return absl::StrCat(seconds / 3600, "h");
  return absl::StrCat(seconds / 86400, "d");
}

std::string Saved(int64_t version, int64_t persisted_version) {
  if (persisted_version == 0) return "not saved";
  if (persisted_version == version) return "saved";
  return absl::StrCat("saved at version ", persisted_version);
}

}  // namespace

OrderedJson ToJson(const std::vector<v1::Session>& sessions) {
  OrderedJson list = OrderedJson::array();
  for (const v1::Session& session : sessions) list.push_back(client::ToJson(session));
  return {{"sessions", list}};
}

std::string Text(const v1::SessionPosition& p) {
  return absl::StrCat("position ", p.position(), ", version ", p.version(), ", ",
                      Saved(p.version(), p.persisted_version()));
}

std::string Text(const v1::Session& s) {
  std::string text;
  const auto line = [&](const char* name, const std::string& value) {
    absl::StrAppendFormat(&text, "%-11s%s\n", name, value);
  };
  line("session", s.id());
  if (!s.label().empty()) line("label", Shown(s.label()));
  line("model", s.model());
  if (!s.parent_id().empty()) {
    line("parent", absl::StrCat(s.parent_id(), " at version ", s.parent_version()));
  }
  line("position", absl::StrCat(s.position()));
  line("version", absl::StrCat(s.version(), ", ", Saved(s.version(), s.persisted_version())));
  line("bytes", absl::StrCat(s.bytes(), ", ", client::TierName(s.tier())));
  line("created", TimeText(s.create_time()));
  line("last use", TimeText(s.last_use_time()));
  if (s.has_expire_time()) line("expires", TimeText(s.expire_time()));
  for (const v1::SessionMark& mark : s.marks()) {
    line("mark", absl::StrCat(Shown(mark.name()), " at position ", mark.position()));
  }
  return text;
}

std::string Table(const std::vector<v1::Session>& sessions, absl::Time now) {
  using Row = std::array<std::string, 8>;
  std::vector<Row> rows = {
      {"ID", "MODEL", "POSITION", "VERSION", "SAVED", "TIER", "USED", "LABEL"}};
  for (const v1::Session& s : sessions) {
    rows.push_back({s.id(), s.model(), absl::StrCat(s.position()), absl::StrCat(s.version()),
                    absl::StrCat(s.persisted_version()), client::TierName(s.tier()),
                    Age(now - ToTime(s.last_use_time())), Shown(s.label())});
  }
  std::array<size_t, 8> widths = {};
  for (const Row& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const Row& row : rows) {
    for (size_t i = 0; i + 1 < row.size(); ++i) {
      absl::StrAppendFormat(&text, "%-*s  ", static_cast<int>(widths[i]), row[i]);
    }
    absl::StrAppend(&text, row.back());
    text.erase(text.find_last_not_of(' ') + 1);
    text += '\n';
  }
  return text;
}

}  // namespace tvq::cli
