#include "server/sessions/stored_session.h"

#include <algorithm>
#include <tuple>

#include "absl/strings/str_cat.h"

namespace tvq {
namespace {

// Records of one version differ only by what is no part of a version.
bool Before(const SessionRecord& a, const SessionRecord& b) {
  return std::tie(a.version, a.last_used) < std::tie(b.version, b.last_used);
}

// A mark of this name at a version that the record names.
MarkRecord MarkAt(const SessionRecord& record, int64_t version, std::string name) {
  MarkRecord found{
      .version = version, .position = record.position, .answer_end = record.answer_end};
  for (const MarkRecord& mark : record.marks) {
    if (mark.version == version) found = mark;
  }
  found.name = std::move(name);
  return found;
}

}  // namespace

bool NamesVersion(const SessionRecord& record, int64_t version) {
  return record.version == version ||
         std::any_of(record.marks.begin(), record.marks.end(),
                     [&](const MarkRecord& mark) { return mark.version == version; });
}

const SessionRecord* StoredSession::Newest() const {
  const SessionRecord* newest = nullptr;
  for (const auto& [version, stored] : versions_) {
    if (!versions_.contains(stored.record.version)) continue;
    if (newest == nullptr || Before(*newest, stored.record)) newest = &stored.record;
  }
  return newest;
}

const std::pair<const int64_t, DamagedVersion>* StoredSession::Lost() const {
  if (damaged_.empty()) return nullptr;
  const auto& last = *damaged_.rbegin();
  const SessionRecord* newest = Newest();
  const bool later = newest != nullptr && newest->version >= last.first;
  return later ? nullptr : &last;
}

std::optional<SessionRecord> StoredSession::Current(const std::string& id) const {
  const auto* lost = Lost();
  const SessionRecord* known = Newest();
  if (lost == nullptr) return known != nullptr ? std::optional(*known) : std::nullopt;
  const auto& [version, damaged] = *lost;
  // The latest that tells of the session, whether or not its own state is there.
  for (const auto& [at, stored] : versions_) {
    if (known == nullptr || Before(*known, stored.record)) known = &stored.record;
  }
  if (damaged.record) known = &*damaged.record;
  SessionRecord record;
  if (known != nullptr) record = *known;
  record.id = id;
  record.owner_lost = known == nullptr;
  const MarkRecord lost_version = MarkAt(record, version, "");
  record.position = lost_version.position;
  record.answer_end = lost_version.answer_end;
  record.version = version;
  record.damage = damaged.problem;
  for (const auto& [at, stored] : versions_) {
    const bool named = std::any_of(record.marks.begin(), record.marks.end(),
                                   [&](const MarkRecord& mark) { return mark.version == at; });
    if (!named) record.marks.push_back(MarkAt(stored.record, at, absl::StrCat("version ", at)));
  }
  return record;
}

std::vector<int64_t> StoredSession::Superseded() const {
  const SessionRecord* newest = Newest();
  std::vector<int64_t> superseded;
  if (newest == nullptr || Lost() != nullptr) return superseded;
  for (const auto& [version, stored] : versions_) {
    if (NamesVersion(*newest, version) || stored.record.version > newest->version) continue;
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
