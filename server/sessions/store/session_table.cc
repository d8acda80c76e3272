#include "server/sessions/store/session_table.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/fair_share.h"
#include "base/quoted.h"
#include "base/refusal.h"

namespace tvq {
namespace {

constexpr int64_t kShare = 15;  // an owner may have so many times what it leaves to others

}  // namespace

absl::StatusOr<EntryPtr> SessionTable::Find(const std::string& owner, const std::string& id) const {
  EntryPtr entry = index.Find(id);
  // Another owner's session looks exactly like one that does not exist. If the record is lost, so
  // is the owner's name: any caller that knows the id finds the session, which has nothing to show.
  if (entry == nullptr ||
      (entry->content->record.owner != owner && !entry->content->record.owner_lost)) {
    return Refused(Reason::kSessionUnknown, "session_id",
                   absl::StrCat("there is no session ", Quoted(id)));
  }
  return entry;
}

SessionView SessionTable::View(const SessionEntry& entry) const {
  const SessionContent& content = *entry.content;
  SessionView view{.record = entry.Record(), .bytes = places_.StateBytes(content)};
  if (content.present.checkpoint != nullptr) {
    view.tier = tiers_.Where(*content.present.checkpoint);
  } else {
    view.tier = entry.saved() ? Tier::kDurable : Tier::kHost;
  }
  return view;
}

absl::Status SessionTable::CheckCount(const std::string& owner, int64_t more) const {
  const int64_t of_owner = context_.options.max_sessions_per_owner;
  const int64_t limit = context_.options.max_sessions;
  const int64_t all = index.size(), mine = index.CountOf(owner);
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

void SessionTable::Count(const SessionEntry& entry, int64_t sign) {
  if (entry.gone()) return;
  if (entry.leased()) totals.leased += sign;
  if (!entry.saved()) totals.unsaved += sign;
  if (entry.content->present.checkpoint != nullptr) return;  // the tiers count it
  (entry.saved() ? totals.durable : totals.host).sessions += sign;
}

void SessionTable::Enlist(EntryPtr entry) {
  Count(*entry, 1);
  tiers_.MovePresent(nullptr, entry->content->present.checkpoint.get());
  index.Insert(std::move(entry));
}

void SessionTable::Drop(SessionEntry& entry) {
  if (entry.gone()) return;
  Recount(entry, [&] { entry.Move(EntryState::kGone); });
  tiers_.MovePresent(entry.content->present.checkpoint.get(), nullptr);
  if (dropped_) dropped_->insert(entry.content->record.id);
  for (const auto& [checkpoint, at] : HoldersOf(*entry.content)) {
    tiers_.RemoveHolder(*checkpoint, at);
  }
  index.Erase(entry.content->record.id);
}

void SessionTable::Take(SessionEntry& entry) {
  Recount(entry, [&] {
    entry.Move(entry.state() == EntryState::kForeign ? EntryState::kTaking : EntryState::kLeased);
  });
}

void SessionTable::GiveBack(SessionEntry& entry) {
  const MutexLock lock(&mutex);
  if (entry.gone()) return;
  Recount(entry, [&] {
    entry.Move(entry.state() == EntryState::kTaking ? EntryState::kForeign : EntryState::kIdle);
  });
}

void SessionTable::SetMade(SessionEntry& entry) {
  Recount(entry, [&] { entry.Move(EntryState::kIdle); });
}

void SessionTable::SetPersisted(SessionEntry& entry, int64_t version) {
  Recount(entry, [&] { entry.persisted_version = version; });
}

ContentPtr SessionTable::Install(SessionEntry& entry, ContentPtr next, const HolderChange& holders,
                                 bool stored) {
  for (const auto& [checkpoint, at] : holders.added) tiers_.AddHolder(*checkpoint, at);
  if (stored) {
    for (const auto& [checkpoint, at] : holders.after) tiers_.SetStored(*checkpoint, at);
  }
  for (const auto& [checkpoint, at] : holders.dropped) tiers_.RemoveHolder(*checkpoint, at);
  tiers_.MovePresent(entry.content->present.checkpoint.get(), next->present.checkpoint.get());
  Recount(entry, [&] { entry.content.swap(next); });
  return next;
}

}  // namespace tvq
