#include "server/sessions/store/version_tree.h"

#include <algorithm>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "base/quoted.h"
#include "base/refusal.h"
#include "server/sessions/record/replies.h"
#include "server/sessions/record/session_id.h"
#include "server/sessions/record/session_limits.h"
#include "server/sessions/store/call_checks.h"

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

absl::StatusOr<SessionContent> VersionTree::Child(const SessionContent& parent,
                                                  const SessionCall& call,
                                                  const ForkOptions& options) {
  const KeptMark* mark = nullptr;
  if (!options.mark.empty()) {
    mark = parent.FindMark(options.mark);
    if (mark == nullptr) return NoMark(parent.record.id, options.mark);
  }
  Version from = mark != nullptr ? mark->kept : parent.present;
  const int64_t version = mark != nullptr ? mark->record.version : parent.record.version;
  if (auto status = loader_.Load(parent, version, from, nullptr); !status.ok()) return status;
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
      .created = context_.clock(),
      .ttl = options.ttl.value_or(parent.record.ttl),
      .has_transcript = parent.record.has_transcript,
      .add_special_tokens = parent.record.add_special_tokens,
      .answer_end = mark != nullptr ? mark->record.answer_end : parent.record.answer_end,
      .creation_key = call.idempotency_key,
      .creation_asked = AskedBy(CallKind::kFork, call.request_hash)};
  auto present = maker_.NewVersion(child, from, child.record.position);
  if (!present.ok()) return present.status();
  child.present = *std::move(present);
  return child;
}

absl::StatusOr<SessionContent> VersionTree::Twin(const SessionContent& fork) {
  Version from = fork.present;
  if (auto status = loader_.Load(fork, fork.record.version, from, nullptr); !status.ok())
    return status;
  SessionContent twin = fork;
  twin.record.id = NewSessionId();
  twin.record.created = context_.clock();
  auto present = maker_.NewVersion(twin, from, twin.record.position);
  if (!present.ok()) return present.status();
  twin.present = *std::move(present);
  return twin;
}

absl::StatusOr<ContentPtr> VersionTree::Untouched(const std::vector<SessionView>& forks) const {
  const MutexLock lock(&table_.mutex);
  for (const SessionView& fork : forks) {
    const EntryPtr entry = table_.index.Find(fork.record.id);
    if (entry != nullptr && entry->content->record.version == 1) return entry->content;
  }
  return Refused(
      Reason::kReplyNotKept, "idempotency_key",
      absl::StrCat("of the first call with this key ", forks.size(),
                   " forks are left, and none as it was made; others are made with another key"));
}

absl::StatusOr<std::vector<SessionView>> VersionTree::Fork(const SessionCall& call,
                                                           const ForkOptions& options) {
  if (auto status = CheckFork(options); !status.ok()) return status;
  if (auto status = context_.CheckDurability(call.durability); !status.ok()) return status;
  if (auto status = claims_.Refresh(call.owner, call.id, /*claim=*/true); !status.ok())
    return status;
  {
    const MutexLock lock(&table_.mutex);
    const auto parent = table_.Find(call.owner, call.id);
    if (!parent.ok()) return parent.status();
  }
  auto made = maker_.Made({.owner = call.owner,
                           .parent_id = call.id,
                           .creation_key = call.idempotency_key,
                           .creation_asked = AskedBy(CallKind::kFork, call.request_hash)},
                          call.durability);
  if (!made.ok() || std::ssize(*made) >= options.count) return made;
  // The first call may have ended with only some forks stored, and could not be undone. The parent
  // may have changed since, so the others are made from one of these forks.
  SessionCall rest = call;
  if (!made->empty()) rest.expected_version.reset();  // it was at this version then
  auto begun = leases_.Begin(rest, CallKind::kFork);
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
    children.push_back(Maker::NewEntry(*std::move(child)));
  }
  if (auto status = maker_.Enter(children, made->size()); !status.ok()) return status;
  begun->lease.reset();  // they hold the state themselves; to store them takes its time
  auto views = maker_.Finish(children, call.durability);
  if (views.ok()) views->insert(views->begin(), made->begin(), made->end());
  return views;
}

absl::StatusOr<SessionView> VersionTree::Mark(const SessionCall& call, const std::string& name) {
  if (name.empty() || name.size() > kMaxMarkBytes) {
    return Refused(Reason::kValueInvalid, "name",
                   absl::StrCat("has ", name.size(), " bytes, must have 1 to ", kMaxMarkBytes));
  }
  auto begun = leases_.Begin(call, CallKind::kMark);
  if (!begun.ok()) return begun.status();
  if (begun->reply) return commits_.Replayed(*begun);
  SessionContent next = *begun->entry->content;
  Version kept = next.present;
  const int64_t position = next.record.position;
  if (const KeptMark* const old = next.FindMark(name); old != nullptr) {
    kept.place = old->kept.place;  // serves the new one
  } else if (next.marks.size() == kMaxMarks) {
    return Refused(Reason::kMarksFull, "name",
                   absl::StrCat("the session has ", kMaxMarks,
                                " marks, the most that it may have; unmark one first"));
  } else {
    auto placed = maker_.NewVersion(next, next.present, position);
    if (!placed.ok()) return placed.status();
    kept = *std::move(placed);
  }
  // If the call fails, the older mark stays. Its place gets its size back before the lease ends.
  const auto place = kept.place;
  absl::Cleanup undo = [&place, before = place->bytes()] { place->Force(before); };
  std::erase_if(next.marks, [&](const KeptMark& m) { return m.record.name == name; });
  next.marks.push_back({.record = {.name = name,
                                   .version = next.record.version + 1,
                                   .position = position,
                                   .answer_end = next.record.answer_end},
                        .kept = std::move(kept)});
  // It may be stored as the session's own version first, with all marks in the record.
  const int64_t bytes = places_.VersionBytes(next, position) + places_.MarksBytes(next);
  if (auto status = place->Resize(bytes); !status.ok()) return status;
  next.replies.Add(call.idempotency_key, AskedBy(CallKind::kMark, call.request_hash),
                   absl::StrCat(next.record.version + 1, " ", position));
  auto view = commits_.Commit(*begun->lease, std::move(next), call.durability);
  if (view.ok()) std::move(undo).Cancel();
  return view;
}

absl::StatusOr<SessionView> VersionTree::Unmark(const SessionCall& call, const std::string& name) {
  auto begun = leases_.Begin(call, CallKind::kUnmark);
  return commits_.Change(
      call, CallKind::kUnmark, std::move(begun), [&](SessionContent& next) -> absl::Status {
        if (next.FindMark(name) == nullptr) return NoMark(call.id, name);
        std::erase_if(next.marks, [&](const KeptMark& m) { return m.record.name == name; });
        return absl::OkStatus();
      });
}

absl::StatusOr<SessionView> VersionTree::Rewind(const SessionCall& call, const std::string& name) {
  auto begun = leases_.Begin(call, CallKind::kRewind);
  return commits_.Change(
      call, CallKind::kRewind, std::move(begun), [&](SessionContent& next) -> absl::Status {
        const KeptMark* const mark = next.FindMark(name);
        if (mark == nullptr) return NoMark(call.id, name);
        Version back = mark->kept;
        if (auto status = loader_.Load(next, mark->record.version, back, nullptr); !status.ok())
          return status;
        next.record.position = mark->record.position;
        next.record.answer_end = mark->record.answer_end;
        back.place = next.present.place;
        next.present = std::move(back);
        return absl::OkStatus();
      });
}

}  // namespace tvq
