#include "server/sessions/store/saver.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <thread>
#include <utility>

#include "base/task_threads.h"
#include "server/sessions/record/stored_session.h"
#include "server/sessions/snapshot/state_image.h"
#include "server/sessions/store/call_checks.h"

namespace tvq {
namespace {

using SteadyClock = std::chrono::steady_clock;
constexpr int kMoveThreads = 4;
constexpr std::chrono::milliseconds kFlushRetry{200};
constexpr int kOwedAtOnce = 16;

}  // namespace

SnapshotHead HeadOfSnapshot(const SessionRecord& record, int64_t number, const Version& version,
                            const Replies& replies, int64_t state_bytes) {
  SnapshotHead head{.record = record,
                    .version = number,
                    .transcript = version.tokens.Ids(),
                    .state_bytes = state_bytes};
  for (const Replies::Entry& entry : replies.entries()) {
    head.outcomes.push_back({entry.key, *entry.text});
  }
  return head;
}

absl::Status Saver::PutVersion(const SessionRecord& record, int64_t number, const Version& version,
                               const Replies& replies, size_t model) {
  const ModelInfo& info = context_.model(model).info();
  Tiers::Image image{StateImageBytes(info, {}),
                     [&](const ByteSink& sink) { return WriteStateImage(info, {}, sink); }};
  if (version.checkpoint != nullptr) {
    auto read = tiers_.Read(version.checkpoint);
    if (!read.ok()) return read.status();
    image = *std::move(read);
  }
  SnapshotHead head = HeadOfSnapshot(record, number, version, replies, image.bytes);
  if (number != record.version) {
    KeepMarksAt(head.record, number);
    // Older servers continue from whichever record of the newest version was used last.
    head.record.last_used -= absl::Nanoseconds(1);
  }
  return context_.durable->Put(record, number, SnapshotHeadBytes(head) + image.bytes,
                               [&](const ByteSink& sink) {
                                 auto status = WriteSnapshotHead(head, sink);
                                 return status.ok() ? image.write(sink) : status;
                               });
}

absl::Status Saver::Put(const SessionContent& content, SessionRecord record) {
  const SteadyClock::time_point began = SteadyClock::now();
  const int64_t persisted_version = std::exchange(record.persisted_version, record.version);
  record.marks.clear();
  for (const KeptMark& mark : content.marks) record.marks.push_back(mark.record);
  if (!content.model) return NotServed(record);
  // It is not loaded if the durable tier seems to have lost it: what is stored must be whole.
  Version present = content.present;
  Replies replies = content.replies;
  absl::Status status = loader_.Load(content, record.version, present, &replies);
  // The present state last: with it the record counts, and what it does not name is dropped.
  for (const KeptMark& mark : content.marks) {
    const int64_t number = mark.record.version;
    if (!status.ok() || number == record.version || !mark.kept.loaded) continue;
    const auto& checkpoint = mark.kept.checkpoint;
    // An empty state has no checkpoint: it was stored with the first version that had the mark.
    const bool stored = checkpoint != nullptr ? tiers_.IsStored(*checkpoint, {record.id, number})
                                              : number <= persisted_version;
    if (stored) continue;
    status = PutVersion(record, number, mark.kept, {}, *content.model);
  }
  if (status.ok()) {
    status = PutVersion(record, record.version, present, replies, *content.model);
  }
  const MutexLock lock(&table_.mutex);
  if (!status.ok()) {
    ++table_.totals.save_failures;
    return status;
  }
  ++table_.totals.saves;
  table_.totals.state_save.Add(std::chrono::duration<double>(SteadyClock::now() - began).count());
  return status;
}

absl::Status Saver::Save(SessionEntry& entry) {
  const MutexLock saving(&entry.saving);
  ContentPtr content;
  SessionRecord record;
  {
    const MutexLock lock(&table_.mutex);
    content = entry.content;
    if (entry.gone() || entry.saved()) return absl::OkStatus();
    record = entry.Record();
  }
  entry.may_be_stored = true;
  const auto status = Put(*content, record);
  if (absl::IsAborted(status)) claims_.GiveUpIfOvertaken(entry);
  if (!status.ok()) return status;
  const MutexLock lock(&table_.mutex);
  table_.SetPersisted(entry, record.version);
  entry.stored_use = record.last_used;
  for (const auto& [checkpoint, at] : HoldersOf(*content)) tiers_.SetStored(*checkpoint, at);
  return absl::OkStatus();
}

absl::Status Saver::Save(const std::string& id) {
  EntryPtr entry;
  {
    const MutexLock lock(&table_.mutex);
    entry = table_.index.Find(id);
  }
  return entry != nullptr ? Save(*entry) : absl::OkStatus();
}

absl::Status Saver::SaveLeased(SessionEntry& entry) {
  if (context_.shares_storage() && entry.may_be_stored) {
    // What is known to be stored may be lost or another server's since.
    const auto standing = claims_.Compare(entry);
    if (!standing.ok()) return standing.status();
    if (*standing == Claims::Standing::kOvertaken) return Overtaken(entry.content->record.id);
  }
  return Save(entry);
}

absl::Status Saver::SaveMade(const std::vector<EntryPtr>& entries, Durability durability) {
  if (durability == Durability::kMemory || entries.empty()) return absl::OkStatus();
  if (durability == Durability::kDefault && !context_.shares_storage()) return absl::OkStatus();
  const auto save = [&](const EntryPtr& entry) {
    auto status = Save(*entry);
    if (durability == Durability::kDisk || !absl::IsUnavailable(status)) return status;
    const MutexLock lock(&table_.mutex);
    owed_.push_back(entry);
    return absl::OkStatus();
  };
  if (entries.size() == 1) return save(entries.front());
  Mutex mutex;
  absl::Status first;
  TaskThreads<> threads({.threads = std::min(kMoveThreads, static_cast<int>(entries.size()))});
  for (const EntryPtr& entry : entries) {
    threads.Schedule([&, entry] {
      {
        const MutexLock lock(&mutex);
        if (!first.ok()) return;
      }
      const auto status = save(entry);
      const MutexLock lock(&mutex);
      first.Update(status);
    });
  }
  threads.Stop();
  return first;
}

void Saver::SaveOwed() {
  for (int i = 0; i < kOwedAtOnce && !context_.stopping; ++i) {
    EntryPtr entry;
    {
      const MutexLock lock(&table_.mutex);
      if (owed_.empty()) return;
      entry = std::move(owed_.front());
      owed_.pop_front();
    }
    const auto status = Save(*entry);
    if (!absl::IsUnavailable(status) && !absl::IsResourceExhausted(status)) continue;
    const MutexLock lock(&table_.mutex);
    owed_.push_back(std::move(entry));  // behind those that there may be room for
    return;
  }
}

int64_t Saver::Flush(SteadyTime until) {
  std::vector<EntryPtr> unsaved, used;
  {
    const MutexLock lock(&table_.mutex);
    table_.index.ForEach([&](const EntryPtr& entry) {
      if (!entry->saved()) {
        unsaved.push_back(entry);
      } else if (!entry->foreign() && entry->stored_use < entry->last_used &&
                 entry->content->record.ttl != absl::InfiniteDuration()) {
        used.push_back(entry);
      }
    });
  }
  if (context_.durable == nullptr) return static_cast<int64_t>(unsaved.size());
  // False if it did not work out in time.
  const auto insist = [until](const std::function<absl::Status()>& store) {
    while (SteadyClock::now() < until) {
      const auto status = store();
      if (status.ok()) return true;
      if (!absl::IsUnavailable(status)) return false;  // trying again would not help
      std::this_thread::sleep_until(std::min<SteadyTime>(until, SteadyClock::now() + kFlushRetry));
    }
    return false;
  };
  std::atomic<int64_t> failed = 0;
  TaskThreads<> threads({.threads = kMoveThreads});
  for (const EntryPtr& entry : unsaved) {
    threads.Schedule([&, entry] {
      if (!insist([&] { return Save(*entry); })) ++failed;
    });
  }
  for (const EntryPtr& entry : used) {
    threads.Schedule([&, entry] {
      absl::Time last_used;
      {
        const MutexLock lock(&table_.mutex);
        last_used = entry->last_used;
      }
      (void)insist([&] { return SaveUse(*entry, last_used); });
    });
  }
  threads.Stop();
  return failed;
}

absl::Status Saver::SaveUse(SessionEntry& entry, absl::Time used) {
  std::string id;
  {
    const MutexLock lock(&table_.mutex);
    id = entry.content->record.id;
  }
  const auto status = context_.durable->Touch(id, used);
  if (absl::IsAborted(status)) {
    const MutexLock saving(&entry.saving);
    claims_.GiveUpIfOvertaken(entry);
  }
  if (!status.ok() && !absl::IsNotFound(status)) return status;
  const MutexLock lock(&table_.mutex);
  entry.stored_use = std::max(entry.stored_use, used);
  return status;
}

absl::Status Saver::Remove(SessionEntry& entry) {
  const MutexLock saving(&entry.saving);
  std::string id;
  {
    const MutexLock lock(&table_.mutex);
    if (entry.gone()) return absl::OkStatus();
    id = entry.content->record.id;
  }
  if (entry.may_be_stored) {
    if (auto status = context_.durable->Delete(id); !status.ok()) return status;
  }
  const MutexLock lock(&table_.mutex);
  table_.Drop(entry);
  return absl::OkStatus();
}

}  // namespace tvq
