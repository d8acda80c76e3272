#include "server/sessions/store/content.h"

#include <algorithm>
#include <iterator>

namespace tvq {

const KeptMark* SessionContent::FindMark(const std::string& name) const {
  const auto found = std::find_if(marks.begin(), marks.end(),
                                  [&](const KeptMark& mark) { return mark.record.name == name; });
  return found == marks.end() ? nullptr : &*found;
}

std::vector<Holder> HoldersOf(const SessionContent& content) {
  std::vector<Holder> holders;
  const auto add = [&](const Version& version, int64_t number) {
    if (version.checkpoint == nullptr) return;
    holders.emplace_back(version.checkpoint, StoredPlace{content.record.id, number});
  };
  add(content.present, content.record.version);
  for (const KeptMark& mark : content.marks) {
    // The present version can be a mark's too, and is then at the same checkpoint.
    if (mark.record.version != content.record.version) add(mark.kept, mark.record.version);
  }
  return holders;
}

HolderChange ChangeOfHolders(const SessionContent& before, const SessionContent& after) {
  HolderChange change{.after = HoldersOf(after)};
  std::vector<Holder> was = HoldersOf(before);
  std::ranges::sort(was);
  std::ranges::sort(change.after);
  std::ranges::set_difference(change.after, was, std::back_inserter(change.added));
  std::ranges::set_difference(was, change.after, std::back_inserter(change.dropped));
  return change;
}

}  // namespace tvq
