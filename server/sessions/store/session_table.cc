#include "server/sessions/store/session_table.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/quoted.h"
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

SessionTable::Age SessionTable::AgeOf(const SessionRecord& record) {
  return {absl::ToUnixNanos(record.created), record.id};
}

SessionTable::End SessionTable::EndOf(const SessionEntry& entry) {
  const SessionRecord& record = entry.content->record;
  return {entry.last_used + record.ttl, record.id};
}

void SessionTable::Touch(SessionEntry& entry, absl::Time now) {
  const bool known = by_end_.erase(EndOf(entry)) > 0;
  entry.last_used = now;
  if (known) by_end_.insert(EndOf(entry));
}

std::vector<SessionTable::EntryPtr> SessionTable::Ended(absl::Time now) const {
  std::vector<EntryPtr> entries;
  for (const auto& [end, id] : by_end_) {
    if (end > now) break;
    entries.push_back(Find(id));
  }
  return entries;
}

void SessionTable::Insert(EntryPtr entry) {
  const SessionRecord& record = entry->content->record;
  by_owner_[record.owner].insert(AgeOf(record));
  if (!record.creation_key.empty()) {
    by_call_[{record.owner, record.parent_id, record.creation_key}].insert(AgeOf(record));
  }
  if (record.ttl != absl::InfiniteDuration()) by_end_.insert(EndOf(*entry));
  const std::string id = record.id;
  by_id_.emplace(id, std::move(entry));
}

void SessionTable::Erase(const std::string& id) {
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

SessionTable::EntryPtr SessionTable::Find(const std::string& id) const {
  const auto found = by_id_.find(id);
  return found == by_id_.end() ? nullptr : found->second;
}

std::vector<SessionTable::EntryPtr> SessionTable::CreatedBy(const std::string& owner,
                                                            const std::string& parent_id,
                                                            const std::string& key) const {
  std::vector<EntryPtr> entries;
  const auto found = by_call_.find({owner, parent_id, key});
  if (key.empty() || found == by_call_.end()) return entries;
  for (const Age& age : found->second) entries.push_back(Find(age.second));
  return entries;
}

int64_t SessionTable::CountOf(const std::string& owner) const {
  const auto found = by_owner_.find(owner);
  return found == by_owner_.end() ? 0 : static_cast<int64_t>(found->second.size());
}

absl::StatusOr<SessionTable::Page> SessionTable::List(const std::string& owner,
                                                      const ListFilter& filter, int64_t page_size,
                                                      const std::string& page_token) const {
  Page page;
  int64_t bytes = 0;
  Age after{INT64_MIN, ""};
  if (!page_token.empty()) {
    const std::pair<std::string, std::string> parts = absl::StrSplit(page_token, '_');
    if (!absl::SimpleAtoi(parts.first, &after.first) || !IsSessionId(parts.second)) {
      return absl::InvalidArgumentError(absl::StrCat("page_token: is ", Quoted(page_token),
                                                     ", must be the next_page_token of a page"));
    }
    after.second = parts.second;
  }
  const auto ages = by_owner_.find(owner);
  if (ages == by_owner_.end()) return page;
  for (auto age = ages->second.upper_bound(after); age != ages->second.end(); ++age) {
    EntryPtr entry = Find(age->second);
    const SessionRecord& record = entry->content->record;
    if (!filter.model.empty() && record.model != filter.model) continue;
    if (!filter.parent_id.empty() && record.parent_id != filter.parent_id) continue;
    if (std::ssize(page.entries) == page_size || bytes >= kMostPageBytes) {
      const Age last = AgeOf(page.entries.back()->content->record);
      page.next_page_token = absl::StrCat(last.first, "_", last.second);
      break;
    }
    bytes += RecordBytes(*entry->content);
    page.entries.push_back(std::move(entry));
  }
  return page;
}

void SessionTable::ForEach(const std::function<void(const EntryPtr&)>& visit) const {
  for (const auto& [id, entry] : by_id_) visit(entry);
}

}  // namespace tvq
