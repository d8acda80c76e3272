// Forks, marks and the way back to them. All of them copy pointers, never a state.
#include <algorithm>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "base/quoted.h"
#include "base/refusal.h"
#include "server/sessions/record/session_id.h"
#include "server/sessions/record/session_limits.h"
#include "server/sessions/store/store.h"

namespace tvq {
namespace {

absl::Status NoMark(const std::string& id, const std::string& name) {
  return Refused(Reason::kMarkUnknown, "mark",
                 absl::StrCat("session ", id, " has no mark ", Quoted(name)));
}

absl::Status CheckFork(const ForkOptions& options) {
  if (options.count < 1 || options.count > kMaxForks) {
    return Refused(Reason::kValueInvalid, "count",
                   absl::StrCat("is ", options.count, ", must be in [1, ", kMaxForks, "]"));
  }
  return CheckNaming(options.label, options.ttl, "");
}

}  // namespace

absl::StatusOr<SessionContent> Store::Child(const SessionContent& parent, const SessionCall& call,
                                            const ForkOptions& options) {
  const KeptMark* mark = nullptr;
  if (!options.mark.empty()) {
    mark = parent.FindMark(options.mark);
    if (mark == nullptr) return NoMark(parent.record.id, options.mark);
  }
  Moment from = mark != nullptr ? mark->moment : parent.present;
  const int64_t version = mark != nullptr ? mark->record.version : parent.record.version;
  if (auto status = Load(parent, version, from, nullptr); !status.ok()) return status;
  SessionContent child;
  child.model = parent.model;
  child.record = {
      .id = NewSessionId(),
      .owner = parent.record.owner,
      .model = parent.record.model,
      .label = options.label,
      .parent_id = parent.record.id,
      .parent_version = version,
      .position = mark != nullptr ? mark->record.position : parent.record.position,
      .created = clock_(),
      .ttl = options.ttl.value_or(parent.record.ttl),
      .has_transcript = parent.record.has_transcript,
      .add_special_tokens = parent.record.add_special_tokens,
      .answer_end = mark != nullptr ? mark->record.answer_end : parent.record.answer_end,
      .creation_key = call.idempotency_key,
      .creation_asked = AskedBy(CallKind::kFork, call.request_hash)};
  auto moment = NewMoment(child, from, child.record.position);
  if (!moment.ok()) return moment.status();
  child.present = *std::move(moment);
  return child;
}

absl::StatusOr<SessionContent> Store::Twin(const SessionContent& fork) {
  Moment from = fork.present;
  if (auto status = Load(fork, fork.record.version, from, nullptr); !status.ok()) return status;
  SessionContent twin = fork;
  twin.record.id = NewSessionId();
  twin.record.created = clock_();
  auto moment = NewMoment(twin, from, twin.record.position);
  if (!moment.ok()) return moment.status();
  twin.present = *std::move(moment);
  return twin;
}

absl::StatusOr<Store::ContentPtr> Store::Untouched(const std::vector<SessionView>& forks) const {
  const MutexLock lock(&mutex_);
  for (const SessionView& fork : forks) {
    const EntryPtr entry = table_.Find(fork.record.id);
    if (entry != nullptr && entry->content->record.version == 1) return entry->content;
  }
  return Refused(
      Reason::kReplyNotKept, "idempotency_key",
      absl::StrCat("of the first call with this key ", forks.size(),
                   " forks are left, and none as it was made; others are made with another key"));
}

absl::StatusOr<std::vector<SessionView>> Store::Fork(const SessionCall& call,
                                                     const ForkOptions& options) {
  if (auto status = CheckFork(options); !status.ok()) return status;
  if (auto status = CheckDurability(call.durability); !status.ok()) return status;
  if (auto status = Refresh(call.owner, call.id, /*claim=*/true); !status.ok()) return status;
  {
    const MutexLock lock(&mutex_);
    const auto parent = Find(call.owner, call.id);
    if (!parent.ok()) return parent.status();
  }
  auto made = Made({.owner = call.owner,
                    .parent_id = call.id,
                    .creation_key = call.idempotency_key,
                    .creation_asked = AskedBy(CallKind::kFork, call.request_hash)},
                   call.durability);
  if (!made.ok() || std::ssize(*made) >= options.count) return made;
  // The first call may have come to an end, and could not be undone, with some of them stored. The
  // parent may have changed since; the others are made from one of these.
  SessionCall rest = call;
  if (!made->empty()) rest.expected_version.reset();  // it was at this version then
  auto begun = Begin(rest, CallKind::kFork);
  if (!begun.ok()) return begun.status();
  ContentPtr untouched;
  if (!made->empty()) {
    auto found = Untouched(*made);
    if (!found.ok()) return found.status();
    untouched = *std::move(found);
  }
  std::vector<EntryPtr> children;
  for (auto i = std::ssize(*made); i < options.count; ++i) {
    auto child =
        untouched != nullptr ? Twin(*untouched) : Child(*begun->entry->content, call, options);
    if (!child.ok()) return child.status();
    children.push_back(NewEntry(*std::move(child)));
  }
  if (auto status = Enter(children, made->size()); !status.ok()) return status;
  begun->hold.reset();  // they hold the state themselves; to store them takes its time
  auto views = FinishMaking(children, call.durability);
  if (views.ok()) views->insert(views->begin(), made->begin(), made->end());
  return views;
}

absl::StatusOr<SessionView> Store::Mark(const SessionCall& call, const std::string& name) {
  if (name.empty() || name.size() > kMaxMarkBytes) {
    return Refused(Reason::kValueInvalid, "name",
                   absl::StrCat("has ", name.size(), " bytes, must have 1 to ", kMaxMarkBytes));
  }
  auto begun = Begin(call, CallKind::kMark);
  if (!begun.ok()) return begun.status();
  if (begun->reply) return Replayed(*begun);
  SessionContent next = *begun->entry->content;
  Moment moment = next.present;
  const int64_t position = next.record.position;
  if (const KeptMark* const old = next.FindMark(name); old != nullptr) {
    moment.place = old->moment.place;  // serves the new one
  } else if (next.marks.size() == kMaxMarks) {
    return Refused(Reason::kMarksFull, "name",
                   absl::StrCat("the session has ", kMaxMarks,
                                " marks, the most that it may have; unmark one first"));
  } else {
    auto placed = NewMoment(next, next.present, position);
    if (!placed.ok()) return placed.status();
    moment = *std::move(placed);
  }
  // If the call fails, the older mark stays, and has its place as it was before the lease ends.
  const auto place = moment.place;
  absl::Cleanup undo = [&place, before = place->bytes()] { place->Force(before); };
  std::erase_if(next.marks, [&](const KeptMark& m) { return m.record.name == name; });
  next.marks.push_back({.record = {.name = name,
                                   .version = next.record.version + 1,
                                   .position = position,
                                   .answer_end = next.record.answer_end},
                        .moment = std::move(moment)});
  // It may be stored as the session's own version first, with all marks in the record.
  const int64_t bytes = PlaceBytes(next, position) + MarksBytes(next);
  if (auto status = place->Resize(bytes); !status.ok()) return status;
  next.replies.Add(call.idempotency_key, AskedBy(CallKind::kMark, call.request_hash),
                   absl::StrCat(next.record.version + 1, " ", position));
  auto view = Commit(*begun->hold, std::move(next), call.durability);
  if (view.ok()) std::move(undo).Cancel();
  return view;
}

absl::StatusOr<SessionView> Store::Unmark(const SessionCall& call, const std::string& name) {
  return Change(call, CallKind::kUnmark, [&](SessionContent& next) -> absl::Status {
    if (next.FindMark(name) == nullptr) return NoMark(call.id, name);
    std::erase_if(next.marks, [&](const KeptMark& m) { return m.record.name == name; });
    return absl::OkStatus();
  });
}

absl::StatusOr<SessionView> Store::Rewind(const SessionCall& call, const std::string& name) {
  return Change(call, CallKind::kRewind, [&](SessionContent& next) -> absl::Status {
    const KeptMark* const mark = next.FindMark(name);
    if (mark == nullptr) return NoMark(call.id, name);
    Moment back = mark->moment;
    if (auto status = Load(next, mark->record.version, back, nullptr); !status.ok()) return status;
    next.record.position = mark->record.position;
    next.record.answer_end = mark->record.answer_end;
    back.place = next.present.place;
    next.present = std::move(back);
    return absl::OkStatus();
  });
}

}  // namespace tvq
