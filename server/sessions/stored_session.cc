#include "server/sessions/stored_session.h"

#include <algorithm>
#include <tuple>

namespace tvq {
namespace {

// Records of one version differ only by what is no part of a version.
bool Before(const SessionRecord& a, const SessionRecord& b) {
  return std::tie(a.version, a.last_used) < std::tie(b.version, b.last_used);
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

std::vector<int64_t> StoredSession::Superseded() const {
  const SessionRecord* newest = Newest();
  std::vector<int64_t> superseded;
  if (newest == nullptr) return superseded;
  for (const auto& [version, stored] : versions_) {
    if (NamesVersion(*newest, version) || stored.record.version > newest->version) continue;
    superseded.push_back(version);
  }
  return superseded;
}

int64_t StoredSession::bytes() const {
  int64_t sum = 0;
  for (const auto& [version, stored] : versions_) sum += stored.bytes;
  return sum;
}

}  // namespace tvq
