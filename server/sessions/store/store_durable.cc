// Sessions on the durable tier: found again at start, written when a call asks for it or host
// memory is full, read when they are used.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <span>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/refusal.h"
#include "server/sessions/durable/movers.h"
#include "server/sessions/record/record_json.h"
#include "server/sessions/record/stored_session.h"
#include "server/sessions/snapshot/snapshot.h"
#include "server/sessions/snapshot/state_image.h"
#include "server/sessions/store/store.h"

namespace tvq {
namespace {

using SteadyClock = std::chrono::steady_clock;
constexpr int kMoveThreads = 4;
constexpr std::chrono::milliseconds kFlushRetry{200};
constexpr int kOwedAtOnce = 16;
// Sessions that UnloadParked looks at while others wait for the mutex.
constexpr size_t kUnloadsAtOnce = 1000;

}  // namespace

Store::EntryPtr Store::FromRecord(SessionRecord record, bool claimed) {
  auto entry = std::make_shared<SessionEntry>();
  entry->persisted_version = record.version;
  entry->last_used = entry->stored_use = record.last_used;
  entry->claimed = claimed;
  entry->may_be_stored = true;
  SessionContent content;
  content.record = record;
  content.record.marks.clear();
  if (const auto index = ModelIndex(record.model); index.ok()) content.model = *index;
  const auto moment = [&](int64_t position, int64_t version, int64_t marks_bytes) {
    Moment moment{.loaded = false};
    if (!content.model) return moment;
    moment.place = std::make_shared<Capacity::Place>(
        capacity_.Force(record.owner, PlaceBytes(content, position) + marks_bytes));
    if (position == 0) return moment;
    const int64_t bytes = model(*content.model).StateBytes(position);
    moment.checkpoint = tiers_->AddStored(
        *content.model, bytes, LargestImage(*content.model, position), {record.id, version});
    return moment;
  };
  int64_t all_marks = 0, marks_so_far = 0;
  for (const MarkRecord& mark : record.marks) all_marks += MostJsonBytes(mark);
  content.present = moment(record.position, record.version, all_marks);
  for (const MarkRecord& mark : record.marks) {
    marks_so_far += MostJsonBytes(mark);
    // A mark of the present version is at the present state.
    KeptMark kept{.record = mark, .moment = moment(mark.position, mark.version, marks_so_far)};
    // It has no replies.
    kept.moment.loaded = content.model && (!record.has_transcript || mark.position == 0);
    if (mark.version == record.version) kept.moment.checkpoint = content.present.checkpoint;
    content.marks.push_back(std::move(kept));
  }
  entry->content = std::make_shared<const SessionContent>(std::move(content));
  return entry;
}

absl::Status Store::LoadStored() {
  if (durable_ == nullptr) return absl::OkStatus();
  const bool claimed = !durable_->shared();
  return durable_->ForEach([&](SessionRecord record) {
    EntryPtr entry = FromRecord(std::move(record), claimed);
    const MutexLock lock(&mutex_);
    if (table_.Find(entry->content->record.id) == nullptr) Enlist(std::move(entry));
  });
}

absl::Status Store::Load(const SessionContent& content, int64_t version, Moment& moment,
                         Replies* replies, std::shared_ptr<const CheckpointHead>* state_head) {
  Checkpoint* const checkpoint = moment.checkpoint.get();
  const bool wants_head = checkpoint != nullptr && state_head != nullptr;
  if (wants_head) *state_head = tiers_->Head(*checkpoint);
  const bool lacks_head = wants_head && *state_head == nullptr;
  if (moment.loaded && !lacks_head) return absl::OkStatus();
  const auto damaged = [&](const absl::Status& status) {
    auto loss = AsDataLoss(
        status, absl::StrCat("session ", content.record.id, ", stored version ", version));
    const MutexLock lock(&mutex_);
    if (absl::IsDataLoss(loss)) ++totals_.corrupt;
    return loss;
  };
  const auto source = durable_->Get(content.record.id, version);
  if (absl::IsNotFound(source.status())) {
    return absl::DataLossError(absl::StrCat("session ", content.record.id, ", version ", version,
                                            ": it is not stored any more"));
  }
  if (!source.ok()) return source.status();
  const auto head = ReadSnapshotHead(source->get());
  if (!head.ok()) return damaged(head.status());
  if (lacks_head) {
    auto image = OpenSnapshotState(*head, source->get(), model(checkpoint->model()).info());
    if (!image.ok()) return damaged(image.status());
    *state_head = std::make_shared<const CheckpointHead>(HeadOf(*image));
  }
  if (moment.loaded) return absl::OkStatus();
  moment.tokens.Append(head->transcript);
  moment.loaded = true;
  if (replies == nullptr) return absl::OkStatus();
  for (const Outcome& outcome : head->outcomes)
    replies->Restore(outcome.idempotency_key, outcome.reply);
  return absl::OkStatus();
}

absl::Status Store::LoadPresent(const Hold& hold,
                                std::shared_ptr<const CheckpointHead>& state_head) {
  SessionEntry& entry = hold.entry();
  // The lease keeps the content what it is.
  SessionContent next = *entry.content;
  const bool loaded = next.present.loaded;
  auto status = Load(next, next.record.version, next.present, &next.replies, &state_head);
  if (!status.ok() || loaded) return status;
  next.present.place->Force(PresentBytes(next));
  ContentPtr content = std::make_shared<const SessionContent>(std::move(next));
  const MutexLock lock(&mutex_);
  content.swap(entry.content);
  parked_.push_back(entry.content->record.id);  // if no commit follows
  return absl::OkStatus();
}

SnapshotHead Store::Head(const SessionRecord& record, int64_t version, const Moment& moment,
                         const Replies& replies, int64_t state_bytes) {
  SnapshotHead head{.record = record,
                    .version = version,
                    .transcript = moment.tokens.Ids(),
                    .state_bytes = state_bytes};
  for (const Replies::Entry& entry : replies.entries()) {
    head.outcomes.push_back({entry.key, *entry.text});
  }
  return head;
}

absl::Status Store::PutMoment(const SessionRecord& record, int64_t version, const Moment& moment,
                              const Replies& replies, size_t index) {
  const ModelInfo& info = model(index).info();
  Tiers::Image image{StateImageBytes(info, {}),
                     [&](const ByteSink& sink) { return WriteStateImage(info, {}, sink); }};
  if (moment.checkpoint != nullptr) {
    auto read = tiers_->Read(moment.checkpoint);
    if (!read.ok()) return read.status();
    image = *std::move(read);
  }
  SnapshotHead head = Head(record, version, moment, replies, image.bytes);
  if (version != record.version) {
    KeepMarksAt(head.record, version);
    // Older servers continue from whichever record of the newest version was used last.
    head.record.last_used -= absl::Nanoseconds(1);
  }
  return durable_->Put(record, version, SnapshotHeadBytes(head) + image.bytes,
                       [&](const ByteSink& sink) {
                         auto status = WriteSnapshotHead(head, sink);
                         return status.ok() ? image.write(sink) : status;
                       });
}

absl::Status Store::Put(const SessionContent& content, SessionRecord record) {
  const SteadyClock::time_point began = SteadyClock::now();
  const int64_t persisted_version = std::exchange(record.persisted_version, record.version);
  record.marks.clear();
  for (const KeptMark& mark : content.marks) record.marks.push_back(mark.record);
  if (!content.model) return NotServed(record);
  // It is not loaded if the durable tier seems to have lost it: what is stored must be whole.
  Moment present = content.present;
  Replies replies = content.replies;
  absl::Status status = Load(content, record.version, present, &replies);
  // The present state last: with it the record counts, and what it does not name is dropped.
  for (const KeptMark& mark : content.marks) {
    const int64_t version = mark.record.version;
    if (!status.ok() || version == record.version || !mark.moment.loaded) continue;
    const auto& checkpoint = mark.moment.checkpoint;
    // An empty state has no checkpoint: it was stored with the first version that had the mark.
    const bool stored = checkpoint != nullptr ? tiers_->IsStored(*checkpoint, {record.id, version})
                                              : version <= persisted_version;
    if (stored) continue;
    status = PutMoment(record, version, mark.moment, {}, *content.model);
  }
  if (status.ok()) {
    status = PutMoment(record, record.version, present, replies, *content.model);
  }
  const MutexLock lock(&mutex_);
  if (!status.ok()) {
    ++totals_.save_failures;
    return status;
  }
  ++totals_.saves;
  totals_.state_save.Add(std::chrono::duration<double>(SteadyClock::now() - began).count());
  return status;
}

absl::Status Store::Persist(SessionEntry& entry) {
  const MutexLock saving(&entry.saving);
  ContentPtr content;
  SessionRecord record;
  {
    const MutexLock lock(&mutex_);
    content = entry.content;
    if (entry.deleted || entry.persisted_version == content->record.version) {
      return absl::OkStatus();
    }
    record = entry.Record();
  }
  entry.may_be_stored = true;
  const auto status = Put(*content, record);
  if (absl::IsAborted(status)) GiveUpIfOvertaken(entry);
  if (!status.ok()) return status;
  const MutexLock lock(&mutex_);
  {
    const Recount recount(this, entry);
    entry.persisted_version = record.version;
  }
  entry.stored_use = record.last_used;
  for (const auto& [checkpoint, at] : HoldsOf(*content)) tiers_->SetStored(*checkpoint, at);
  return absl::OkStatus();
}

absl::Status Store::Persist(const std::string& id) {
  EntryPtr entry;
  {
    const MutexLock lock(&mutex_);
    entry = table_.Find(id);
  }
  return entry != nullptr ? Persist(*entry) : absl::OkStatus();
}

absl::Status Store::PersistMade(const std::vector<EntryPtr>& entries, Durability durability) {
  if (durability == Durability::kMemory || entries.empty()) return absl::OkStatus();
  if (durability == Durability::kDefault && !shares_storage()) return absl::OkStatus();
  const auto persist = [&](const EntryPtr& entry) {
    auto status = Persist(*entry);
    if (durability == Durability::kDisk || !absl::IsUnavailable(status)) return status;
    const MutexLock lock(&mutex_);
    owing_.push_back(entry);
    return absl::OkStatus();
  };
  if (entries.size() == 1) return persist(entries.front());
  Mutex mutex;
  absl::Status first;
  Movers movers(std::min(kMoveThreads, static_cast<int>(entries.size())));
  for (const EntryPtr& entry : entries) {
    (void)movers.Schedule([&, entry] {
      {
        const MutexLock lock(&mutex);
        if (!first.ok()) return;
      }
      const auto status = persist(entry);
      const MutexLock lock(&mutex);
      first.Update(status);
    });
  }
  movers.Stop();
  return first;
}

void Store::StoreOwed() {
  for (int i = 0; i < kOwedAtOnce && !stopping_; ++i) {
    EntryPtr entry;
    {
      const MutexLock lock(&mutex_);
      if (owing_.empty()) return;
      entry = std::move(owing_.front());
      owing_.pop_front();
    }
    const auto status = Persist(*entry);
    if (!absl::IsUnavailable(status) && !absl::IsResourceExhausted(status)) continue;
    const MutexLock lock(&mutex_);
    owing_.push_back(std::move(entry));  // behind those that there may be room for
    return;
  }
}

absl::Status Store::SaveHeld(SessionEntry& entry) {
  if (shares_storage() && entry.may_be_stored) {
    // What is known to be stored may be lost or another server's since.
    const auto held = Compare(entry);
    if (!held.ok()) return held.status();
    if (*held == Held::kOvertaken) return Overtaken(entry.content->record.id);
  }
  return Persist(entry);
}

absl::StatusOr<SessionView> Store::Save(const SessionCall& call) {
  if (durable_ == nullptr) {
    return Refused(
        Reason::kDurabilityMissing,
        "the server keeps sessions in memory alone, so that none can be saved: it must be started "
        "with --session-dir or --redis; until then an export keeps a session elsewhere");
  }
  for (bool again = false;; again = true) {
    const auto begun = Begin(call, CallKind::kSave);
    if (!begun.ok()) return begun.status();
    const auto status = SaveHeld(*begun->entry);
    // The call began out of touch with the tier and has found out that another server has the
    // session. Beginning once more tells what was lost by that, so that no later call has to.
    if (absl::IsAborted(status) && !again) continue;
    if (!status.ok()) return status;
    const MutexLock lock(&mutex_);
    return View(*begun->entry);
  }
}

int64_t Store::Flush(SteadyTime until) {
  std::vector<EntryPtr> unsaved, used;
  {
    const MutexLock lock(&mutex_);
    table_.ForEach([&](const EntryPtr& entry) {
      const SessionRecord& record = entry->content->record;
      if (entry->persisted_version < record.version) {
        unsaved.push_back(entry);
      } else if (entry->claimed && entry->stored_use < entry->last_used &&
                 record.ttl != absl::InfiniteDuration()) {
        used.push_back(entry);
      }
    });
  }
  if (durable_ == nullptr) return static_cast<int64_t>(unsaved.size());
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
  Movers movers(kMoveThreads);
  for (const EntryPtr& entry : unsaved) {
    (void)movers.Schedule([&, entry] {
      if (!insist([&] { return Persist(*entry); })) ++failed;
    });
  }
  for (const EntryPtr& entry : used) {
    (void)movers.Schedule([&, entry] {
      absl::Time last_used;
      {
        const MutexLock lock(&mutex_);
        last_used = entry->last_used;
      }
      (void)insist([&] { return StoreUse(*entry, last_used); });
    });
  }
  movers.Stop();
  return failed;
}

int64_t Store::UnloadParked() {
  std::vector<std::string> ids;
  {
    const MutexLock lock(&mutex_);
    ids.swap(parked_);
  }
  int64_t unloaded = 0;
  for (std::span<std::string> rest = ids; !rest.empty() && !stopping_;) {
    const auto next = rest.first(std::min(rest.size(), kUnloadsAtOnce));
    unloaded += Unload(next);
    rest = rest.subspan(next.size());
  }
  while (!stopping_) {
    ids = tiers_->TakeParked(kUnloadsAtOnce);
    if (ids.empty()) break;
    unloaded += Unload(ids);
  }
  return unloaded;
}

int64_t Store::Unload(std::span<std::string> ids) {
  std::vector<ContentPtr> forgotten;  // freed after the lock
  const MutexLock lock(&mutex_);
  for (std::string& id : ids) {
    const EntryPtr entry = table_.Find(id);
    if (entry == nullptr) continue;
    const Moment& present = entry->content->present;
    if (entry->leased) {
      parked_.push_back(std::move(id));  // if the call does not change it
      continue;
    }
    if (entry->persisted_version != entry->content->record.version || !present.loaded ||
        present.checkpoint == nullptr || tiers_->Where(*present.checkpoint) != Tier::kDurable) {
      continue;
    }
    SessionContent next = *entry->content;
    next.present.tokens = TokenLog();
    next.present.loaded = false;
    next.replies = Replies();
    forgotten.push_back(
        std::exchange(entry->content, std::make_shared<const SessionContent>(std::move(next))));
  }
  return static_cast<int64_t>(forgotten.size());
}

}  // namespace tvq
