// One writer at a time, and how a call commits.
#include <cstdlib>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "server/sessions/store.h"

namespace tvq {
namespace {

// Keeps the idempotency keys of calls apart that are answered differently.
constexpr std::string_view kComputes = "computes";

std::string ReplyKey(std::string_view kind, const SessionCall& call) {
  return absl::StrCat(std::string(kind), ":", call.idempotency_key);
}

}  // namespace

absl::StatusOr<Store::Begun> Store::Begin(const SessionCall& call, std::string_view kind) {
  const absl::MutexLock lock(&mutex_);
  auto found = Find(call.owner, call.id);
  if (!found.ok()) return found.status();
  SessionEntry& entry = **found;
  const SessionRecord& record = entry.content->record;
  // A retry is answered even if the session has gone on since, or is busy.
  if (!call.idempotency_key.empty()) {
    auto reply = entry.content->replies.Find(ReplyKey(kind, call));
    if (reply) return Begun{.reply = std::move(reply), .entry = *found};
  }
  if (!entry.content->model && kind != "delete") {
    return absl::FailedPreconditionError(absl::StrCat("session_id: session ", record.id,
                                                      " is of model \"", record.model,
                                                      "\", which is not served here"));
  }
  if (entry.leased) {
    return absl::AbortedError(
        absl::StrCat("session_id: another call works on session ", record.id));
  }
  if (call.expected_version && *call.expected_version != record.version) {
    return absl::AbortedError(absl::StrCat("expected_version: is ", *call.expected_version,
                                           ", session ", record.id, " is at version ",
                                           record.version));
  }
  entry.leased = true;
  entry.last_used = clock_();
  return Begun{.hold = Hold(this, *found), .entry = *found};
}

void Store::Release(SessionEntry& entry) {
  const absl::MutexLock lock(&mutex_);
  entry.leased = false;
}

absl::StatusOr<SessionView> Store::Commit(const Hold& hold, SessionContent next, Durability) {
  ++next.record.version;
  auto content = std::make_shared<const SessionContent>(std::move(next));
  SessionEntry& entry = *hold.entry();
  const absl::MutexLock lock(&mutex_);
  entry.content.swap(content);  // what was committed before is let go after the lock
  entry.last_used = clock_();
  ++totals_.commits;
  return View(entry);
}

SessionView Store::Replayed(const Begun& begun) const {
  const std::pair<std::string, std::string> outcome = absl::StrSplit(*begun.reply, ' ');
  const absl::MutexLock lock(&mutex_);
  SessionView view = View(*begun.entry);
  if (!absl::SimpleAtoi(outcome.first, &view.record.version) ||
      !absl::SimpleAtoi(outcome.second, &view.record.position)) {
    std::abort();  // Change wrote something else
  }
  return view;
}

absl::StatusOr<SessionView> Store::Change(const SessionCall& call, std::string_view kind,
                                          const Edit& edit) {
  auto begun = Begin(call, kind);
  if (!begun.ok()) return begun.status();
  if (begun->reply) return Replayed(*begun);
  SessionContent next = *begun->entry->content;
  if (auto status = edit(next); !status.ok()) return status;
  if (!call.idempotency_key.empty()) {
    next.replies.Add(ReplyKey(kind, call),
                     absl::StrCat(next.record.version + 1, " ", next.record.position));
  }
  return Commit(*begun->hold, std::move(next), call.durability);
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
    const Moment& present = begun_.entry->content->present;
    if (present.checkpoint == nullptr) return std::nullopt;
    return store_->tiers_->Start(present.checkpoint);
  }

  absl::StatusOr<SessionView> Commit(Continuation next, std::string reply) override {
    return store_->CommitComputed(call_, begun_, std::move(next), std::move(reply));
  }

 private:
  Store* const store_;
  const SessionCall call_;
  Begun begun_;
  const SessionRecord record_;
};

absl::StatusOr<std::unique_ptr<Lease>> Store::Acquire(const SessionCall& call) {
  auto begun = Begin(call, kComputes);
  if (!begun.ok()) return begun.status();
  SessionRecord record;
  {
    const absl::MutexLock lock(&mutex_);
    record = begun->entry->Record();
  }
  return std::make_unique<StoreLease>(this, call, *std::move(begun), std::move(record));
}

absl::StatusOr<SessionView> Store::CommitComputed(const SessionCall& call, Begun& begun,
                                                  Continuation next, std::string reply) {
  if (!begun.hold) std::abort();  // a second commit, or one after a replay
  const Hold hold = *std::move(begun.hold);
  begun.hold.reset();
  SessionContent content = *hold.entry()->content;
  content.record.position += static_cast<int64_t>(next.tokens.size());
  const int64_t position = next.held.state->position() + static_cast<int64_t>(next.pending.size());
  if (position != content.record.position) {
    return absl::InternalError(absl::StrCat("session ", content.record.id, ": the state is at ",
                                            position, ", its tokens end at ",
                                            content.record.position));
  }
  Moment& present = content.present;
  if (content.record.has_transcript) present.tokens.Append(next.tokens);
  present.checkpoint = tiers_->Add(*content.model, std::move(next));
  if (auto status = present.place->Resize(present.checkpoint->bytes()); !status.ok()) return status;
  if (!call.idempotency_key.empty()) {
    content.replies.Add(ReplyKey(kComputes, call), std::move(reply));
  }
  return Commit(hold, std::move(content), call.durability);
}

}  // namespace tvq
