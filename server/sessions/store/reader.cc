#include "server/sessions/store/reader.h"

#include <algorithm>
#include <utility>

#include "server/sessions/record/session_limits.h"

namespace tvq {
namespace {

constexpr int kMaxReadings = 10;  // each but the first follows a commit
// Sessions that a list looks at while others wait for the mutex: some tenths of a millisecond.
constexpr int64_t kLooksForList = 1000;

}  // namespace

absl::StatusOr<SessionView> Reader::Get(const std::string& owner, const std::string& id) {
  if (auto status = claims_.Refresh(owner, id, /*claim=*/false); !status.ok()) return status;
  const MutexLock lock(&table_.mutex);
  const auto entry = table_.Find(owner, id);
  if (!entry.ok()) return entry.status();
  if ((*entry)->content->record.owner_lost) return (*entry)->content->record.damage;
  return table_.View(**entry);
}

absl::StatusOr<SessionTranscript> Reader::Transcript(const std::string& owner,
                                                     const std::string& id) {
  SessionTranscript transcript;
  const auto read = [&](const SessionContent& content, const SessionView& view) {
    Version present = content.present;
    auto status = loader_.Load(content, view.record.version, present, nullptr);
    if (status.ok()) transcript = {view, std::move(present.tokens)};
    return status;
  };
  if (auto status = ReadCommitted(owner, id, read); !status.ok()) return status;
  return transcript;
}

absl::Status Reader::ReadCommitted(const std::string& owner, const std::string& id,
                                   const Use& use) {
  if (auto status = claims_.Refresh(owner, id, /*claim=*/false); !status.ok()) return status;
  ContentPtr content;
  for (int tries = kMaxReadings;;) {
    SessionView view;
    {
      const MutexLock lock(&table_.mutex);
      const auto entry = table_.Find(owner, id);
      if (!entry.ok()) return entry.status();
      content = (*entry)->content;
      view = table_.View(**entry);
    }
    auto status = use(*content, view);
    if (status.ok() || --tries == 0) return status;
    // Another server may have dropped it, too.
    if (auto again = claims_.Refresh(owner, id, /*claim=*/false); !again.ok()) return again;
    const MutexLock lock(&table_.mutex);
    const auto entry = table_.Find(owner, id);
    if (!entry.ok()) return entry.status();
    if ((*entry)->content == content) return status;
  }
}

absl::StatusOr<SessionPage> Reader::List(const std::string& owner, const ListFilter& filter,
                                         int64_t page_size, const std::string& page_token) {
  const int64_t size = page_size <= 0 ? kDefaultPageSize : std::min(page_size, kMaxPageSize);
  if (auto status = neighbours_.LearnStored(); !status.ok()) return status;
  SessionIndex::Search search{.owner = owner, .filter = filter, .page_size = size};
  if (auto status = SessionIndex::SetStart(page_token, &search); !status.ok()) return status;
  SessionPage page;
  while (!search.done) {
    const MutexLock lock(&table_.mutex);
    for (const EntryPtr& entry : table_.index.Look(kLooksForList, &search)) {
      page.sessions.push_back(table_.View(*entry));
    }
  }
  page.next_page_token = std::move(search.next_page_token);
  return page;
}

}  // namespace tvq
