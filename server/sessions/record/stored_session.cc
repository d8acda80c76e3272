#include "server/sessions/record/stored_session.h"

#include <algorithm>
#include <tuple>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"

namespace tvq {
namespace {

// Records of one version differ only by what is no part of a version.
bool Before(const SessionRecord& a, const SessionRecord& b) {
  return std::tie(a.version, a.last_used) < std::tie(b.version, b.last_used);
}

// The mark at a version that the record names; without a name if the version is only its own.
MarkRecord MarkAt(const SessionRecord& record, int64_t version) {
  MarkRecord found{
      .version = version, .position = record.position, .answer_end = record.answer_end};
  for (const MarkRecord& mark : record.marks) {
    if (mark.version == version) found = mark;
  }
  return found;
}

// Adds a mark for each stored version that has none. One that was a mark when it was written is
// called as it was then, unless the record tells of all marks there are, or a later one took over
// the name.
void MarkAll(const std::map<int64_t, StoredVersion>& versions, bool knows_all,
             std::vector<MarkRecord>& marks) {
  absl::flat_hash_set<int64_t> marked;
  absl::flat_hash_set<std::string> names;
  for (const MarkRecord& mark : marks) {
    marked.insert(mark.version);
    names.insert(mark.name);
  }
  for (auto stored = versions.rbegin(); stored != versions.rend(); ++stored) {
    if (marked.contains(stored->first)) continue;
    MarkRecord mark = MarkAt(stored->second.record, stored->first);
    if (knows_all || mark.name.empty() || !names.insert(mark.name).second) {
      mark.name = absl::StrCat("version ", stored->first);
    }
    marks.push_back(std::move(mark));
  }
  std::stable_sort(marks.begin(), marks.end(),
                   [](const MarkRecord& a, const MarkRecord& b) { return a.version < b.version; });
}

}  // namespace

bool NamesVersion(const SessionRecord& record, int64_t version) {
  return record.version == version ||
         std::any_of(record.marks.begin(), record.marks.end(),
                     [&](const MarkRecord& mark) { return mark.version == version; });
}

void KeepMarksAt(SessionRecord& record, int64_t version) {
  std::erase_if(record.marks, [&](const MarkRecord& mark) { return mark.version != version; });
  record.marks.shrink_to_fit();
}

void StoredSession::Add(int64_t version, SessionRecord record, int64_t bytes) {
  const SessionRecord* const newest = Newest();
  const bool replaces =
      record.version == version && (newest == nullptr || newest->version <= version);
  if (!replaces) {
    KeepMarksAt(record, version);
  } else if (newest != nullptr) {
    KeepMarksAt(versions_.at(newest->version).record, newest->version);
  }
  versions_[version] = {std::move(record), bytes};
}

const SessionRecord* StoredSession::Newest() const {
  for (auto stored = versions_.rbegin(); stored != versions_.rend(); ++stored) {
    if (stored->second.record.version == stored->first) return &stored->second.record;
  }
  return nullptr;
}

const std::pair<const int64_t, DamagedVersion>* StoredSession::Lost(
    const SessionRecord* newest) const {
  if (damaged_.empty()) return nullptr;
  const auto& last = *damaged_.rbegin();
  const bool later = newest != nullptr && newest->version >= last.first;
  return later ? nullptr : &last;
}

std::optional<SessionRecord> StoredSession::Current(const std::string& id) const {
  const SessionRecord* known = Newest();
  const auto* lost = Lost(known);
  if (lost == nullptr) return known != nullptr ? std::optional(*known) : std::nullopt;
  const auto& [version, damaged] = *lost;
  // The latest that tells of the session, whether or not its own state is there.
  for (const auto& [at, stored] : versions_) {
    if (known == nullptr || Before(*known, stored.record)) known = &stored.record;
  }
  if (damaged.record) known = &*damaged.record;
  SessionRecord record;
  if (known != nullptr) record = *known;
  const bool knows_all = damaged.record && record.version == version;
  record.id = id;
  record.owner_lost = known == nullptr;
  const MarkRecord lost_version = MarkAt(record, version);
  record.position = lost_version.position;
  record.answer_end = lost_version.answer_end;
  record.version = version;
  record.damage = damaged.problem;
  if (!knows_all) record.marks.clear();
  MarkAll(versions_, knows_all, record.marks);
  return record;
}

std::vector<int64_t> StoredSession::Superseded() const {
  const SessionRecord* const newest = Newest();
  return newest != nullptr ? SupersededBy(*newest) : std::vector<int64_t>();
}

std::vector<int64_t> StoredSession::SupersededBy(const SessionRecord& newest) const {
  std::vector<int64_t> superseded;
  if (Lost(&newest) != nullptr) return superseded;
  absl::flat_hash_set<int64_t> named{newest.version};
  for (const MarkRecord& mark : newest.marks) named.insert(mark.version);
  for (const auto& [version, stored] : versions_) {
    if (named.contains(version) || stored.record.version > newest.version) continue;
    superseded.push_back(version);
  }
  return superseded;
}

int64_t StoredSession::bytes() const {
  int64_t sum = 0;
  for (const auto& [version, stored] : versions_) sum += stored.bytes;
  for (const auto& [version, damaged] : damaged_) sum += damaged.bytes;
  return sum;
}

}  // namespace tvq
