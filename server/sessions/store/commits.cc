#include "server/sessions/store/commits.h"

#include <optional>
#include <string>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace tvq {

absl::StatusOr<std::vector<Tiers::Pin>> Commits::Anchor(const std::vector<Holder>& added) {
  std::vector<Tiers::Pin> pins;
  for (const auto& [checkpoint, at] : added) {
    auto pin = tiers_.BringToHost(checkpoint);
    if (!pin.ok()) return pin.status();
    pins.push_back(*std::move(pin));
  }
  return pins;
}

absl::StatusOr<SessionView> Commits::Commit(const EntryLease& lease, SessionContent next,
                                            Durability durability, bool frees) {
  SessionEntry& entry = lease.entry();
  ++next.record.version;
  // Versions share the place; the one that stays has its size.
  const auto place = next.present.place;
  absl::Cleanup undo = [&] { places_.Fit(*entry.content); };
  if (frees) {
    place->Force(places_.PresentBytes(next));
  } else if (auto status = place->Resize(places_.PresentBytes(next)); !status.ok()) {
    return status;
  }
  next.record.damage = absl::OkStatus();  // that of another version
  // The lease keeps the content what it is.
  const HolderChange holders = ChangeOfHolders(*entry.content, next);
  const auto pins = Anchor(holders.added);
  if (!pins.ok()) return pins.status();
  const absl::Time now = context_.clock();
  std::optional<MutexLock> saving;
  bool stored = durability == Durability::kDisk;
  if (stored || context_.leaving) {
    saving.emplace(&entry.saving);
    SessionRecord record = next.record;
    record.last_used = now;
    {
      const MutexLock lock(&table_.mutex);
      record.persisted_version = entry.persisted_version;
    }
    entry.may_be_stored = true;
    const auto status = saver_.Put(next, std::move(record));
    if (!status.ok() && (stored || !absl::IsUnavailable(status))) return status;
    stored = status.ok();
  }
  ContentPtr content = std::make_shared<const SessionContent>(std::move(next));
  const MutexLock lock(&table_.mutex);
  // The old one is let go after the lock.
  content = table_.Install(entry, std::move(content), holders, stored);
  if (stored) {
    table_.SetPersisted(entry, entry.content->record.version);
    entry.stored_use = now;
  }
  table_.index.Touch(entry, now);
  std::move(undo).Cancel();
  ++table_.totals.commits;
  return table_.View(entry);
}

absl::StatusOr<SessionView> Commits::Replayed(const Begun& begun) const {
  const std::pair<std::string, std::string> outcome = absl::StrSplit(*begun.reply, ' ');
  const MutexLock lock(&table_.mutex);
  SessionView view = table_.View(*begun.entry);
  if (!absl::SimpleAtoi(outcome.first, &view.record.version) ||
      !absl::SimpleAtoi(outcome.second, &view.record.position)) {
    return absl::DataLossError(
        absl::StrCat("session ", view.record.id,
                     ": what the first call with this idempotency_key was answered is damaged"));
  }
  return view;
}

absl::StatusOr<SessionView> Commits::Change(const SessionCall& call, CallKind kind,
                                            absl::StatusOr<Begun> begun, const Edit& edit) {
  if (!begun.ok()) return begun.status();
  if (begun->reply) return Replayed(*begun);
  SessionContent next = *begun->entry->content;
  if (auto status = edit(next); !status.ok()) return status;
  next.replies.Add(call.idempotency_key, AskedBy(kind, call.request_hash),
                   absl::StrCat(next.record.version + 1, " ", next.record.position));
  return Commit(*begun->lease, std::move(next), call.durability, kind == CallKind::kUnmark);
}

}  // namespace tvq
