#include "server/sessions/store/session.h"

#include <algorithm>

namespace tvq {

const KeptMark* SessionContent::FindMark(const std::string& name) const {
  const auto found = std::find_if(marks.begin(), marks.end(),
                                  [&](const KeptMark& mark) { return mark.record.name == name; });
  return found == marks.end() ? nullptr : &*found;
}

std::vector<std::pair<std::shared_ptr<Checkpoint>, StoredPlace>> HoldsOf(
    const SessionContent& content) {
  std::vector<std::pair<std::shared_ptr<Checkpoint>, StoredPlace>> holds;
  const auto add = [&](const Moment& moment, int64_t version) {
    if (moment.checkpoint == nullptr) return;
    holds.emplace_back(moment.checkpoint, StoredPlace{content.record.id, version});
  };
  add(content.present, content.record.version);
  for (const KeptMark& mark : content.marks) {
    // The present version can be a mark's too, and is then at the same checkpoint.
    if (mark.record.version != content.record.version) add(mark.moment, mark.record.version);
  }
  return holds;
}

SessionRecord SessionEntry::Record() const {
  SessionRecord record = content->record;
  record.persisted_version = persisted_version;
  record.last_used = last_used;
  for (const KeptMark& mark : content->marks) record.marks.push_back(mark.record);
  return record;
}

}  // namespace tvq
