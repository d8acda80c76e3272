#include "server/sessions/store/entry.h"

#include <cstdlib>

namespace tvq {

void SessionEntry::Move(EntryState to) {
  if (!MayMove(state_, to)) std::abort();
  state_ = to;
}

SessionRecord SessionEntry::Record() const {
  SessionRecord record = content->record;
  record.persisted_version = persisted_version;
  record.last_used = last_used;
  for (const KeptMark& mark : content->marks) record.marks.push_back(mark.record);
  return record;
}

}  // namespace tvq
