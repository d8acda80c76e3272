// One writer at a time, and how a call commits.
#include <cstdlib>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/refusal.h"
#include "server/sessions/store/store.h"

namespace tvq {
namespace {

constexpr int kMaxClaims = 10;  // each but the first follows another call that looked meanwhile

// What a call with this key was answered before. Fork looks for what it made, and to save or delete
// twice is as once.
absl::StatusOr<std::optional<std::string>> FindReply(const Replies& replies, CallKind kind,
                                                     const SessionCall& call) {
  if (kind == CallKind::kFork || kind == CallKind::kSave || kind == CallKind::kDelete) {
    return std::nullopt;
  }
  return replies.Find(call.idempotency_key, AskedBy(kind, call.request_hash));
}

}  // namespace

absl::Status Store::Busy(const std::string& id) {
  return Refused(Reason::kSessionBusy, "session_id",
                 absl::StrCat("another call works on session ", id));
}

absl::Status Store::NotServed(const SessionRecord& record) {
  if (record.owner_lost) return record.damage;
  return Refused(Reason::kModelNotServed, "session_id",
                 absl::StrCat("session ", record.id, " is of model \"", record.model,
                              "\", which is not served here"));
}

absl::Status Store::CheckVersion(const SessionCall& call, const SessionRecord& record) {
  if (!call.expected_version || *call.expected_version == record.version) return absl::OkStatus();
  return Refused(Reason::kVersionConflict, "expected_version",
                 absl::StrCat("is ", *call.expected_version, ", session ", record.id,
                              " is at version ", record.version));
}

// Finds the session and leases it. A retry is answered even if the session is busy.
absl::Status Store::Lock(const SessionCall& call, CallKind kind, Begun& begun) {
  const MutexLock lock(&mutex_);
  auto found = Find(call.owner, call.id);
  if (!found.ok()) return found.status();
  begun.entry = *std::move(found);
  SessionEntry& entry = *begun.entry;
  const SessionRecord& record = entry.content->record;
  auto reply = FindReply(entry.content->replies, kind, call);
  if (!reply.ok()) return reply.status();
  begun.reply = *std::move(reply);
  if (begun.reply) return absl::OkStatus();
  if (!entry.content->model && kind != CallKind::kDelete) {
    return NotServed(record);
  }
  if (!entry.lost.empty() && kind != CallKind::kDelete) {
    return Refused(Reason::kSessionMoved, std::exchange(entry.lost, ""));
  }
  if (entry.leased) {
    auto busy = Busy(record.id);
    if (call.idempotency_key.empty()) return busy;
    return WithRefusal(
        RefusalOf(busy),
        absl::StrCat(busy.message(),
                     "; if that is the first call with this idempotency_key, try again"));
  }
  if (shares_storage() && !entry.claimed) return absl::OkStatus();
  // Before it leases, so that no other call hears that the session is busy. A retry loads first:
  // only then is its reply known.
  if (call.idempotency_key.empty()) {
    if (auto status = CheckVersion(call, record); !status.ok()) return status;
  }
  const Recount recount(this, entry);
  entry.leased = true;
  begun.hold.emplace(this, begun.entry);
  return absl::OkStatus();
}

absl::StatusOr<Store::Begun> Store::Begin(const SessionCall& call, CallKind kind) {
  if (auto status = CheckNaming("", {}, call.idempotency_key); !status.ok()) return status;
  if (auto status = CheckDurability(call.durability); !status.ok()) return status;
  Begun begun;
  for (int tries = kMaxClaims; !begun.hold && !begun.reply; --tries) {
    if (tries == 0) return Overtaken(call.id);
    if (auto status = Refresh(call.owner, call.id, /*claim=*/true); !status.ok()) return status;
    if (auto status = Lock(call, kind, begun); !status.ok()) return status;
  }
  if (begun.hold) {
    if (auto status = Look(call, kind, begun); !status.ok()) return status;
  }
  // The first call may have promised less than its retry does.
  if (begun.reply && call.durability == Durability::kDisk) {
    if (auto status = Persist(*begun.entry); !status.ok()) return status;
  }
  return begun;
}

absl::Status Store::Look(const SessionCall& call, CallKind kind, Begun& begun) {
  if (kind != CallKind::kDelete) {  // what is stored may be too damaged to load, but not to delete
    auto status = LoadPresent(*begun.hold, begun.state_head);
    // Nor to go back to a mark or fork it. A fork of what is lost sees for itself.
    const bool may_do_without = kind == CallKind::kRewind || kind == CallKind::kFork;
    if (!status.ok() && !(may_do_without && absl::IsDataLoss(status))) return status;
  }
  const MutexLock lock(&mutex_);
  const SessionContent& content = *begun.entry->content;
  auto reply = FindReply(content.replies, kind, call);  // known only after loading
  if (!reply.ok()) return reply.status();
  begun.reply = *std::move(reply);
  if (!begun.reply) {
    if (auto status = CheckVersion(call, content.record); !status.ok()) return status;
  }
  table_.Touch(*begun.entry, clock_());
  return absl::OkStatus();
}

void Store::Release(SessionEntry& entry) {
  const MutexLock lock(&mutex_);
  const Recount recount(this, entry);
  entry.leased = false;
}

absl::StatusOr<std::vector<Tiers::Pin>> Store::Anchor(const std::vector<HeldPlace>& added) {
  std::vector<Tiers::Pin> pins;
  for (const auto& [checkpoint, at] : added) {
    auto pin = tiers_->BringToHost(checkpoint);
    if (!pin.ok()) return pin.status();
    pins.push_back(*std::move(pin));
  }
  return pins;
}

Store::ContentPtr Store::Install(SessionEntry& entry, ContentPtr next, const HoldsChange& holds,
                                 bool stored) {
  for (const auto& [checkpoint, at] : holds.added) tiers_->Hold(*checkpoint, at);
  if (stored) {
    for (const auto& [checkpoint, at] : holds.after) tiers_->SetStored(*checkpoint, at);
  }
  for (const auto& [checkpoint, at] : holds.dropped) tiers_->LetGo(*checkpoint, at);
  tiers_->MovePresent(entry.content->present.checkpoint.get(), next->present.checkpoint.get());
  const Recount recount(this, entry);
  return std::exchange(entry.content, std::move(next));
}

absl::StatusOr<SessionView> Store::Commit(const Hold& hold, SessionContent next,
                                          Durability durability, bool frees) {
  SessionEntry& entry = hold.entry();
  ++next.record.version;
  // Versions share the place; the one that stays has its size.
  const auto place = next.present.place;
  absl::Cleanup undo = [&] { FitPlace(entry); };
  if (frees) {
    place->Force(PresentBytes(next));
  } else if (auto status = place->Resize(PresentBytes(next)); !status.ok()) {
    return status;
  }
  next.record.damage = absl::OkStatus();  // that of another version
  // The lease keeps the content what it is.
  const HoldsChange holds = ChangeOfHolds(*entry.content, next);
  const auto pins = Anchor(holds.added);
  if (!pins.ok()) return pins.status();
  const absl::Time now = clock_();
  std::optional<MutexLock> saving;
  bool stored = durability == Durability::kDisk;
  if (stored || leaving_) {
    saving.emplace(&entry.saving);
    SessionRecord record = next.record;
    record.last_used = now;
    {
      const MutexLock lock(&mutex_);
      record.persisted_version = entry.persisted_version;
    }
    entry.may_be_stored = true;
    const auto status = Put(next, std::move(record));
    if (!status.ok() && (stored || !absl::IsUnavailable(status))) return status;
    stored = status.ok();
  }
  ContentPtr content = std::make_shared<const SessionContent>(std::move(next));
  const MutexLock lock(&mutex_);
  // The old one is let go after the lock.
  content = Install(entry, std::move(content), holds, stored);
  if (stored) {
    const Recount recount(this, entry);
    entry.persisted_version = entry.content->record.version;
    entry.stored_use = now;
  }
  table_.Touch(entry, now);
  std::move(undo).Cancel();
  ++totals_.commits;
  return View(entry);
}

void Store::FitPlace(const SessionEntry& entry) {
  const SessionContent& content = *entry.content;  // the lease keeps it what it is
  if (content.present.place != nullptr) content.present.place->Force(PresentBytes(content));
}

absl::Status Store::ReserveGrowth(const SessionContent& content, int64_t position) {
  const Model& grown = model(*content.model);
  // What the context length does not allow, the engine refuses.
  if (!grown.StatesGrow() || position > grown.info().config.max_position) return absl::OkStatus();
  const int64_t growth =
      PlaceBytes(content, position) - PlaceBytes(content, content.record.position);
  if (growth <= 0) return absl::OkStatus();
  const int64_t bytes = PresentBytes(content) + growth;
  if (bytes > capacity_.largest()) {
    return Refused(Reason::kStateTooLarge, "max_tokens",
                   absl::StrCat("a state at position ", position, " takes ", bytes,
                                " bytes, more than the sessions of a key may have here, ",
                                capacity_.largest()));
  }
  return content.present.place->Resize(bytes);
}

absl::StatusOr<SessionView> Store::Replayed(const Begun& begun) const {
  const std::pair<std::string, std::string> outcome = absl::StrSplit(*begun.reply, ' ');
  const MutexLock lock(&mutex_);
  SessionView view = View(*begun.entry);
  if (!absl::SimpleAtoi(outcome.first, &view.record.version) ||
      !absl::SimpleAtoi(outcome.second, &view.record.position)) {
    return absl::DataLossError(
        absl::StrCat("session ", view.record.id,
                     ": what the first call with this idempotency_key was answered is damaged"));
  }
  return view;
}

absl::StatusOr<SessionView> Store::Change(const SessionCall& call, CallKind kind,
                                          const Edit& edit) {
  auto begun = Begin(call, kind);
  if (!begun.ok()) return begun.status();
  if (begun->reply) return Replayed(*begun);
  SessionContent next = *begun->entry->content;
  if (auto status = edit(next); !status.ok()) return status;
  next.replies.Add(call.idempotency_key, AskedBy(kind, call.request_hash),
                   absl::StrCat(next.record.version + 1, " ", next.record.position));
  return Commit(*begun->hold, std::move(next), call.durability, kind == CallKind::kUnmark);
}

class Store::StoreLease : public Lease {
 public:
  StoreLease(Store* store, SessionCall call, Begun begun, SessionRecord record)
      : store_(store),
        call_(std::move(call)),
        begun_(std::move(begun)),
        record_(std::move(record)) {}

  const SessionRecord& record() const override { return record_; }
  const std::optional<std::string>& replay() const override { return begun_.reply; }

  std::optional<StartPoint> Start() override {
    const auto& checkpoint = past_ ? past_->checkpoint : begun_.entry->content->present.checkpoint;
    if (checkpoint == nullptr) return std::nullopt;
    StartPoint start = store_->tiers_->Start(checkpoint, past_ ? past_->head : *begun_.state_head);
    start.answer_end = record_.answer_end;
    return start;
  }

  absl::StatusOr<std::vector<int32_t>> Transcript() const override {
    if (record_.has_transcript) return begun_.entry->content->present.tokens.Ids();
    return Refused(
        Reason::kTranscriptMissing, "session_id",
        absl::StrCat("session ", record_.id,
                     " keeps no transcript, must have been created with keep_transcript"));
  }

  absl::StatusOr<int64_t> GoBack(std::span<const int32_t> tokens) override {
    auto place = store_->LastPlace(begun_, tokens);
    if (!place.ok()) return place.status();
    past_ = *std::move(place);
    record_.position = past_->position();
    record_.answer_end = past_->answer_end;
    return record_.position;
  }

  ~StoreLease() override {
    if (begun_.hold) store_->FitPlace(*begun_.entry);
  }

  absl::Status Reserve(int64_t position) override {
    return begun_.hold ? store_->ReserveGrowth(*begun_.entry->content, position) : absl::OkStatus();
  }

  absl::StatusOr<SessionView> Commit(Continuation next, std::string reply) override {
    return store_->CommitComputed(call_, begun_, past_ ? &*past_ : nullptr, std::move(next), reply);
  }

 private:
  Store* const store_;
  const SessionCall call_;
  Begun begun_;
  SessionRecord record_;
  std::optional<Place> past_;  // unset: the call goes on from now
};

absl::StatusOr<std::unique_ptr<Lease>> Store::Acquire(const SessionCall& call) {
  auto begun = Begin(call, CallKind::kCompute);
  if (!begun.ok()) return begun.status();
  if (begun->reply) begun->hold.reset();
  SessionRecord record;
  {
    const MutexLock lock(&mutex_);
    record = begun->entry->Record();
  }
  return std::make_unique<StoreLease>(this, call, *std::move(begun), std::move(record));
}

absl::StatusOr<SessionView> Store::CommitComputed(const SessionCall& call, Begun& begun,
                                                  const Place* past, Continuation next,
                                                  const std::string& reply) {
  if (!begun.hold) std::abort();  // a second commit, or one after a replay
  if (!call.idempotency_key.empty() && reply.size() > kMaxReplyBytes) {
    // A retry would not find it, and be done again.
    return absl::InternalError(absl::StrCat("session ", call.id, ": a reply of ", reply.size(),
                                            " bytes cannot be kept, ", kMaxReplyBytes, " can"));
  }
  const Hold hold = *std::move(begun.hold);
  begun.hold.reset();
  const absl::Cleanup fit = [&] { FitPlace(hold.entry()); };
  SessionContent content = *hold.entry().content;
  if (past != nullptr) {
    content.record.position = past->position();
    content.present.tokens = past->tokens;
  }
  content.record.position += static_cast<int64_t>(next.tokens.size());
  const int64_t position = next.held.state->position() + static_cast<int64_t>(next.pending.size());
  if (position != content.record.position) {
    return absl::InternalError(absl::StrCat("session ", content.record.id, ": the state is at ",
                                            position, ", its tokens end at ",
                                            content.record.position));
  }
  content.record.answer_end = std::move(next.answer_end);
  Moment& present = content.present;
  if (content.record.has_transcript) present.tokens.Append(next.tokens);
  present.checkpoint = tiers_->Add(*content.model, std::move(next));
  content.replies.Add(call.idempotency_key, AskedBy(CallKind::kCompute, call.request_hash), reply);
  return Commit(hold, std::move(content), call.durability);
}

}  // namespace tvq
