// Making, finding and removing sessions.
#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/fair_share.h"
#include "base/quoted.h"
#include "base/refusal.h"
#include "server/sessions/record/record_json.h"
#include "server/sessions/record/session_id.h"
#include "server/sessions/record/session_limits.h"
#include "server/sessions/store/store.h"

namespace tvq {
namespace {

constexpr int64_t kShare = 15;    // an owner may have so many times what it leaves to others
constexpr int kMaxReadings = 10;  // each but the first follows a commit
// Sessions that a list looks at while others wait for the mutex: some tenths of a millisecond.
constexpr int64_t kLooksForList = 1000;

absl::Status CheckBytes(const char* field, const std::string& value, size_t max) {
  if (value.size() <= max) return absl::OkStatus();
  return Refused(Reason::kValueInvalid, field,
                 absl::StrCat("has ", value.size(), " bytes, may have ", max));
}

absl::Status StillMaking() {
  return Refused(Reason::kFirstCallRunning, "idempotency_key",
                 "the first call with this key is still being done; try again");
}

}  // namespace

absl::Status CheckNaming(const std::string& label, const std::optional<absl::Duration>& ttl,
                         const std::string& idempotency_key) {
  if (ttl && *ttl <= absl::ZeroDuration()) {
    return Refused(Reason::kValueInvalid, "ttl",
                   absl::StrCat("is ", absl::FormatDuration(*ttl), ", must be positive"));
  }
  if (auto status = CheckBytes("label", label, kMaxLabelBytes); !status.ok()) return status;
  return CheckBytes("idempotency_key", idempotency_key, kMaxKeyBytes);
}

absl::Status Store::CheckDurability(Durability durability) const {
  if (durability != Durability::kDisk || durable_ != nullptr) return absl::OkStatus();
  return Refused(Reason::kDurabilityMissing, "durability",
                 "must be memory or left out, for the server keeps sessions in memory alone: it "
                 "was started without --session-dir and --redis");
}

Store::EntryPtr Store::NewEntry(SessionContent content) {
  auto entry = std::make_shared<SessionEntry>();
  entry->last_used = content.record.created;
  entry->content = std::make_shared<const SessionContent>(std::move(content));
  entry->leased = true;
  return entry;
}

absl::StatusOr<size_t> Store::ModelIndex(const std::string& name) const {
  const auto& models = engine_->models();
  if (name.empty()) {
    if (models.size() == 1) return 0;
    return Refused(
        Reason::kValueMissing, "model",
        absl::StrCat("must be given, because the server has ", models.size(), " models"));
  }
  for (size_t i = 0; i < models.size(); ++i) {
    if (models[i].name == name) return i;
  }
  return Refused(Reason::kModelUnknown, "model", absl::StrCat("there is no model ", Quoted(name)));
}

int64_t Store::Bytes(const SessionContent& content) const {
  if (content.present.checkpoint != nullptr) return content.present.checkpoint->bytes();
  const int64_t tokens = std::max<int64_t>(1, content.record.position);
  return content.model ? model(*content.model).StateBytes(tokens) : 0;
}

int64_t Store::LargestImage(size_t index, int64_t position) const {
  const Model& kept = model(index);
  return place_bytes_[index] - kept.StateBytes(0) + kept.StateBytes(position);
}

int64_t Store::PlaceBytes(const SessionContent& content, int64_t position) const {
  const int64_t ids = content.record.has_transcript ? position : 0;
  return LargestImage(*content.model, position) + ids * int64_t{sizeof(int32_t)};
}

int64_t Store::MarksBytes(const SessionContent& content) const {
  if (durable_ == nullptr) return 0;
  int64_t bytes = 0;
  for (const KeptMark& mark : content.marks) bytes += MostJsonBytes(mark.record);
  return bytes;
}

int64_t Store::PresentBytes(const SessionContent& content) const {
  return PlaceBytes(content, content.record.position) + content.replies.bytes() +
         MarksBytes(content);
}

absl::StatusOr<Moment> Store::NewMoment(const SessionContent& content, const Moment& like,
                                        int64_t position) {
  auto place = capacity_.Reserve(content.record.owner, PlaceBytes(content, position));
  if (!place.ok() && shares_storage()) {  // others may have deleted what is counted here
    if (auto status = LearnStored(); !status.ok()) return status;
    place = capacity_.Reserve(content.record.owner, PlaceBytes(content, position));
  }
  if (!place.ok()) return place.status();
  Moment moment = like;
  moment.place = std::make_shared<Capacity::Place>(*std::move(place));
  return moment;
}

absl::StatusOr<Store::EntryPtr> Store::Find(const std::string& owner, const std::string& id) const {
  EntryPtr entry = table_.Find(id);
  // Another owner's session looks exactly like one that does not exist. Whose session is lost with
  // its record cannot be told: it is theirs who know the id, and has nothing to show.
  if (entry == nullptr ||
      (entry->content->record.owner != owner && !entry->content->record.owner_lost)) {
    return Refused(Reason::kSessionUnknown, "session_id",
                   absl::StrCat("there is no session ", Quoted(id)));
  }
  return entry;
}

SessionView Store::View(const SessionEntry& entry) const {
  const SessionContent& content = *entry.content;
  SessionView view{.record = entry.Record(), .bytes = Bytes(content)};
  if (content.present.checkpoint != nullptr) {
    view.tier = tiers_->Where(*content.present.checkpoint);
  } else {
    const bool stored = entry.persisted_version == content.record.version;
    view.tier = stored ? Tier::kDurable : Tier::kHost;
  }
  return view;
}

absl::Status Store::CheckCount(const std::string& owner, int64_t more) const {
  const int64_t of_owner = options_.max_sessions_per_owner, limit = options_.max_sessions;
  const int64_t all = table_.size(), mine = table_.CountOf(owner);
  if (of_owner > 0 && mine + more > of_owner) {
    return Refused(Reason::kSessionsFull, absl::StrCat("sessions: there are ", mine,
                                                       " of this key, which may have ", of_owner));
  }
  if (limit == 0) return absl::OkStatus();
  const FairShare share(limit, kShare);
  const bool fair = owner.empty() ||
                    (mine > 0 ? share.MayHave(mine + more, all + more) : share.MayBegin(more, all));
  if (fair && all + more <= limit) return absl::OkStatus();
  return Refused(
      Reason::kSessionsFull,
      absl::StrCat("sessions: there are ", all, ", ", mine, " of them this key's; ", more,
                   " more would exceed ", all + more > limit ? "" : "its part of ", "the limit of ",
                   limit, " (--max-sessions)",
                   mine > 0 ? "; delete some of its own that are not needed" : "; try again"));
}

absl::Status Store::Enter(const std::vector<EntryPtr>& entries, size_t made) {
  const SessionRecord& record = entries.front()->content->record;
  bool full = false;
  {
    const MutexLock lock(&mutex_);
    full = !CheckCount(record.owner, std::ssize(entries)).ok();
  }
  // Others may have made some that are not known here.
  const int64_t limit = options_.max_sessions;
  full = full || (shares_storage() && limit > 0 &&
                  durable_->usage().sessions + std::ssize(entries) > limit);
  if (full) {  // others may have deleted what is counted here
    if (auto status = LearnStored(); !status.ok()) return status;
  }
  std::vector<Tiers::Pin> pins;
  for (const EntryPtr& entry : entries) {
    auto pinned = Anchor(HoldsOf(*entry->content));
    if (!pinned.ok()) return pinned.status();
    std::move(pinned->begin(), pinned->end(), std::back_inserter(pins));
  }
  const MutexLock lock(&mutex_);
  if (table_.CreatedBy(record.owner, record.parent_id, record.creation_key).size() != made) {
    return StillMaking();
  }
  if (auto status = CheckCount(record.owner, std::ssize(entries)); !status.ok()) return status;
  for (const EntryPtr& entry : entries) {
    for (const auto& [checkpoint, at] : HoldsOf(*entry->content)) tiers_->Hold(*checkpoint, at);
    entry->making = true;
    Enlist(entry);
  }
  totals_.created += static_cast<int64_t>(entries.size());
  return absl::OkStatus();
}

absl::StatusOr<std::vector<SessionView>> Store::FinishMaking(const std::vector<EntryPtr>& entries,
                                                             Durability durability) {
  if (auto status = PersistMade(entries, durability); !status.ok()) {
    for (const EntryPtr& entry : entries) {
      if (Remove(*entry).ok()) continue;
      const MutexLock lock(&mutex_);
      Drop(*entry);  // a copy that cannot be deleted now is found again
    }
    return status;
  }
  std::vector<SessionView> views;
  const MutexLock lock(&mutex_);
  for (const EntryPtr& entry : entries) {
    {
      const Recount recount(this, *entry);
      entry->leased = false;
    }
    entry->making = false;
    views.push_back(View(*entry));
  }
  return views;
}

absl::StatusOr<SessionView> Store::Insert(EntryPtr entry, Durability durability) {
  const std::vector<EntryPtr> made{std::move(entry)};
  if (auto status = Enter(made, 0); !status.ok()) return status;
  auto views = FinishMaking(made, durability);
  if (!views.ok()) return views.status();
  return std::move(views->front());
}

absl::StatusOr<std::vector<SessionView>> Store::Made(const SessionRecord& wanted,
                                                     Durability durability) {
  if (auto status = FindMade(wanted); !status.ok()) return status;
  std::vector<EntryPtr> entries;
  {
    const MutexLock lock(&mutex_);
    entries = table_.CreatedBy(wanted.owner, wanted.parent_id, wanted.creation_key);
    for (const EntryPtr& entry : entries) {
      const std::string& asked = entry->content->record.creation_asked;
      if (!asked.empty() && asked != wanted.creation_asked) return KeyIsTaken(wanted.creation_key);
      // What is not stored yet, as its call wants it, may still be undone.
      if (entry->making) return StillMaking();
    }
  }
  if (auto status = PersistMade(entries, durability); !status.ok()) return status;
  std::vector<SessionView> views;
  views.reserve(entries.size());
  const MutexLock lock(&mutex_);
  for (const EntryPtr& entry : entries) views.push_back(View(*entry));
  return views;
}

absl::StatusOr<SessionView> Store::Create(const std::string& owner, const CreateOptions& options) {
  if (auto status = CheckNaming(options.label, options.ttl, options.idempotency_key);
      !status.ok()) {
    return status;
  }
  if (auto status = CheckDurability(options.durability); !status.ok()) return status;
  const auto index = ModelIndex(options.model);
  if (!index.ok()) return index.status();
  if (!model(*index).info().predicts) {
    return Refused(
        Reason::kModelUnfit, "model",
        absl::StrCat("\"", engine_->models()[*index].name, "\" encodes; it keeps no sessions"));
  }
  SessionContent content;
  content.model = *index;
  content.record = {.id = NewSessionId(),
                    .owner = owner,
                    .model = engine_->models()[*index].name,
                    .label = options.label,
                    .created = clock_(),
                    .ttl = options.ttl.value_or(options_.default_ttl),
                    .has_transcript = options.keep_transcript.value_or(options_.keep_transcript),
                    .add_special_tokens = options.add_special_tokens.value_or(true),
                    .creation_key = options.idempotency_key,
                    .creation_asked = AskedBy(CallKind::kCreate, options.request_hash)};
  const auto made = Made(content.record, options.durability);
  if (!made.ok()) return made.status();
  if (!made->empty()) return made->front();
  auto moment = NewMoment(content, {}, 0);
  if (!moment.ok()) return moment.status();
  content.present = *std::move(moment);
  return Insert(NewEntry(std::move(content)), options.durability);
}

absl::StatusOr<SessionView> Store::Get(const std::string& owner, const std::string& id) {
  if (auto status = Refresh(owner, id, /*claim=*/false); !status.ok()) return status;
  const MutexLock lock(&mutex_);
  const auto entry = Find(owner, id);
  if (!entry.ok()) return entry.status();
  if ((*entry)->content->record.owner_lost) return (*entry)->content->record.damage;
  return View(**entry);
}

absl::StatusOr<SessionTranscript> Store::Transcript(const std::string& owner,
                                                    const std::string& id) {
  SessionTranscript transcript;
  const auto read = [&](const SessionContent& content, const SessionView& view) {
    Moment present = content.present;
    auto status = Load(content, view.record.version, present, nullptr);
    if (status.ok()) transcript = {view, std::move(present.tokens)};
    return status;
  };
  if (auto status = ReadCommitted(owner, id, read); !status.ok()) return status;
  return transcript;
}

absl::Status Store::ReadCommitted(const std::string& owner, const std::string& id,
                                  const Reading& read) {
  if (auto status = Refresh(owner, id, /*claim=*/false); !status.ok()) return status;
  ContentPtr content;
  for (int tries = kMaxReadings;;) {
    SessionView view;
    {
      const MutexLock lock(&mutex_);
      const auto entry = Find(owner, id);
      if (!entry.ok()) return entry.status();
      content = (*entry)->content;
      view = View(**entry);
    }
    auto status = read(*content, view);
    if (status.ok() || --tries == 0) return status;
    // Another server may have dropped it, too.
    if (auto again = Refresh(owner, id, /*claim=*/false); !again.ok()) return again;
    const MutexLock lock(&mutex_);
    const auto entry = Find(owner, id);
    if (!entry.ok()) return entry.status();
    if ((*entry)->content == content) return status;
  }
}

absl::StatusOr<SessionPage> Store::List(const std::string& owner, const ListFilter& filter,
                                        int64_t page_size, const std::string& page_token) {
  const int64_t size = page_size <= 0 ? kDefaultPageSize : std::min(page_size, kMaxPageSize);
  if (auto status = LearnStored(); !status.ok()) return status;
  SessionTable::Search search{.owner = owner, .filter = filter, .page_size = size};
  if (auto status = SessionTable::SetStart(page_token, &search); !status.ok()) return status;
  SessionPage page;
  while (!search.done) {
    const MutexLock lock(&mutex_);
    for (const EntryPtr& entry : table_.Look(kLooksForList, &search)) {
      page.sessions.push_back(View(*entry));
    }
  }
  page.next_page_token = std::move(search.next_page_token);
  return page;
}

absl::Status Store::Delete(const SessionCall& call) {
  auto begun = Begin(call, CallKind::kDelete);
  if (!begun.ok()) return begun.status();
  if (auto status = Remove(*begun->entry); !status.ok()) return status;
  const MutexLock lock(&mutex_);
  ++totals_.deleted;
  return absl::OkStatus();
}

absl::Status Store::Remove(SessionEntry& entry) {
  const MutexLock saving(&entry.saving);
  std::string id;
  {
    const MutexLock lock(&mutex_);
    if (entry.deleted) return absl::OkStatus();
    id = entry.content->record.id;
  }
  if (entry.may_be_stored) {
    if (auto status = durable_->Delete(id); !status.ok()) return status;
  }
  const MutexLock lock(&mutex_);
  Drop(entry);
  return absl::OkStatus();
}

void Store::Count(const SessionEntry& entry, int64_t sign) {
  if (entry.deleted) return;
  const bool unsaved = entry.persisted_version < entry.content->record.version;
  if (entry.leased) totals_.leased += sign;
  if (unsaved) totals_.unsaved += sign;
  if (entry.content->present.checkpoint != nullptr) return;  // the tiers count it
  (unsaved ? totals_.host : totals_.durable).sessions += sign;
}

void Store::Enlist(EntryPtr entry) {
  Count(*entry, 1);
  tiers_->MovePresent(nullptr, entry->content->present.checkpoint.get());
  table_.Insert(std::move(entry));
}

void Store::Drop(SessionEntry& entry) {
  if (entry.deleted) return;
  Count(entry, -1);
  tiers_->MovePresent(entry.content->present.checkpoint.get(), nullptr);
  entry.deleted = true;
  if (learning_) dropped_.insert(entry.content->record.id);
  for (const auto& [checkpoint, at] : HoldsOf(*entry.content)) tiers_->LetGo(*checkpoint, at);
  table_.Erase(entry.content->record.id);
}

}  // namespace tvq
