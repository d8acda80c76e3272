#include "server/sessions/store/session.h"

#include <algorithm>
#include <iterator>

namespace tvq {

const KeptMark* SessionContent::FindMark(const std::string& name) const {
  const auto found = std::find_if(marks.begin(), marks.end(),
                                  [&](const KeptMark& mark) { return mark.record.name == name; });
  return found == marks.end() ? nullptr : &*found;
}

std::vector<HeldPlace> HoldsOf(const SessionContent& content) {
  std::vector<HeldPlace> holds;
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

HoldsChange ChangeOfHolds(const SessionContent& before, const SessionContent& after) {
  HoldsChange change{.after = HoldsOf(after)};
  std::vector<HeldPlace> was = HoldsOf(before);
  std::ranges::sort(was);
  std::ranges::sort(change.after);
  std::ranges::set_difference(change.after, was, std::back_inserter(change.added));
  std::ranges::set_difference(was, change.after, std::back_inserter(change.dropped));
  return change;
}

SessionRecord SessionEntry::Record() const {
  SessionRecord record = content->record;
  record.persisted_version = persisted_version;
  record.last_used = last_used;
  for (const KeptMark& mark : content->marks) record.marks.push_back(mark.record);
  return record;
}

}  // namespace tvq
