#include "server/sessions/store/session_index.h"

#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/quoted.h"
#include "base/refusal.h"
#include "server/sessions/record/session_id.h"

namespace tvq {
namespace {

// Of a page, about, so that an answer stays well below the 4 MiB that gRPC's clients take. One
// session has less, with all the marks it may have.
constexpr int64_t kMostPageBytes = int64_t{1} << 20;

int64_t RecordBytes(const SessionContent& content) {
  constexpr size_t kNumbers = 128, kMarkNumbers = 24;  // and ids
  const SessionRecord& record = content.record;
  size_t bytes = kNumbers + record.model.size() + record.label.size();
  for (const KeptMark& mark : content.marks) bytes += mark.record.name.size() + kMarkNumbers;
  return static_cast<int64_t>(bytes);
}

}  // namespace

SessionIndex::Age SessionIndex::AgeOf(const SessionRecord& record) {
  return {absl::ToUnixNanos(record.created), record.id};
}

SessionIndex::End SessionIndex::EndOf(const SessionEntry& entry) {
  const SessionRecord& record = entry.content->record;
  return {entry.last_used + record.ttl, record.id};
}

void SessionIndex::Touch(SessionEntry& entry, absl::Time now) {
  const bool known = by_end_.erase(EndOf(entry)) > 0;
  entry.last_used = now;
  if (known) by_end_.insert(EndOf(entry));
}

int64_t SessionIndex::VisitEnded(absl::Time now, int64_t most, End* after,
                                 const std::function<bool(const EntryPtr&)>& visit) const {
  const auto first = by_end_.upper_bound(*after);
  const auto over = [&](auto at) { return at != by_end_.end() && at->first <= now; };
  int64_t shown = 0;
  const auto show = [&](auto at) {
    ++shown;
    *after = *at;
    return visit(Find(at->second)) && shown < most;
  };
  for (auto at = first; over(at); ++at) {
    if (!show(at)) return shown;
  }
  for (auto at = by_end_.begin(); at != first && over(at); ++at) {
    if (!show(at)) return shown;
  }
  return shown;
}

void SessionIndex::Insert(EntryPtr entry) {
  const SessionRecord& record = entry->content->record;
  by_owner_[record.owner].insert(AgeOf(record));
  if (!record.creation_key.empty()) {
    by_call_[{record.owner, record.parent_id, record.creation_key}].insert(AgeOf(record));
  }
  if (record.ttl != absl::InfiniteDuration()) by_end_.insert(EndOf(*entry));
  const std::string id = record.id;
  by_id_.emplace(id, std::move(entry));
}

void SessionIndex::Erase(const std::string& id) {
  const auto found = by_id_.find(id);
  if (found == by_id_.end()) return;
  const SessionRecord& record = found->second->content->record;
  const auto forget = [&](auto& index, const auto& key) {
    const auto ages = index.find(key);
    if (ages == index.end()) return;
    ages->second.erase(AgeOf(record));
    if (ages->second.empty()) index.erase(ages);
  };
  by_end_.erase(EndOf(*found->second));
  forget(by_owner_, record.owner);
  forget(by_call_, Call{record.owner, record.parent_id, record.creation_key});
  by_id_.erase(found);
}

EntryPtr SessionIndex::Find(const std::string& id) const {
  const auto found = by_id_.find(id);
  return found == by_id_.end() ? nullptr : found->second;
}

std::vector<EntryPtr> SessionIndex::CreatedBy(const std::string& owner,
                                              const std::string& parent_id,
                                              const std::string& key) const {
  std::vector<EntryPtr> entries;
  const auto found = by_call_.find({owner, parent_id, key});
  if (key.empty() || found == by_call_.end()) return entries;
  for (const Age& age : found->second) entries.push_back(Find(age.second));
  return entries;
}

int64_t SessionIndex::CountOf(const std::string& owner) const {
  const auto found = by_owner_.find(owner);
  return found == by_owner_.end() ? 0 : static_cast<int64_t>(found->second.size());
}

absl::Status SessionIndex::SetStart(const std::string& page_token, Search* search) {
  if (page_token.empty()) return absl::OkStatus();
  const std::pair<std::string, std::string> parts = absl::StrSplit(page_token, '_');
  if (!absl::SimpleAtoi(parts.first, &search->after.first) || !IsSessionId(parts.second)) {
    return Refused(
        Reason::kValueInvalid, "page_token",
        absl::StrCat("is ", Quoted(page_token), ", must be the next_page_token of a page"));
  }
  search->after.second = parts.second;
  return absl::OkStatus();
}

std::vector<EntryPtr> SessionIndex::Look(int64_t most, Search* search) const {
  std::vector<EntryPtr> found;
  const auto ages = by_owner_.find(search->owner);
  if (ages == by_owner_.end()) {
    search->done = true;
    return found;
  }
  auto age = ages->second.upper_bound(search->after);
  for (int64_t looks = 0; looks < most && age != ages->second.end(); ++looks, ++age) {
    search->after = *age;
    EntryPtr entry = Find(age->second);
    const SessionRecord& record = entry->content->record;
    const ListFilter& filter = search->filter;
    if (!filter.model.empty() && record.model != filter.model) continue;
    if (!filter.parent_id.empty() && record.parent_id != filter.parent_id) continue;
    if (search->found == search->page_size || search->bytes >= kMostPageBytes) {
      search->next_page_token = absl::StrCat(search->last.first, "_", search->last.second);
      search->done = true;
      return found;
    }
    ++search->found;
    search->bytes += RecordBytes(*entry->content);
    search->last = *age;
    found.push_back(std::move(entry));
  }
  search->done = age == ages->second.end();
  return found;
}

void SessionIndex::ForEach(const std::function<void(const EntryPtr&)>& visit) const {
  for (const auto& [id, entry] : by_id_) visit(entry);
}

}  // namespace tvq
