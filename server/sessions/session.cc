#include "server/sessions/session.h"

#include <algorithm>

namespace tvq {

const KeptMark* SessionContent::FindMark(const std::string& name) const {
  const auto found = std::find_if(marks.begin(), marks.end(),
                                  [&](const KeptMark& mark) { return mark.record.name == name; });
  return found == marks.end() ? nullptr : &*found;
}

SessionRecord SessionEntry::Record() const {
  SessionRecord record = content->record;
  record.persisted_version = persisted_version;
  record.last_used = last_used;
  for (const KeptMark& mark : content->marks) record.marks.push_back(mark.record);
  return record;
}

}  // namespace tvq
