#include "server/sessions/store/maker.h"

#include <iterator>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/refusal.h"
#include "server/sessions/record/replies.h"
#include "server/sessions/record/session_id.h"
#include "server/sessions/store/call_checks.h"

namespace tvq {
namespace {

absl::Status StillMaking() {
  return Refused(Reason::kFirstCallRunning, "idempotency_key",
                 "the first call with this key is still being done; try again");
}

}  // namespace

absl::StatusOr<SessionView> Maker::Create(const std::string& owner, const CreateOptions& options) {
  auto named = CheckNaming(options.label, options.ttl, options.idempotency_key);
  if (named.ok()) named = context_.CheckDurability(options.durability);
  if (!named.ok()) return named;
  const auto index = context_.ModelIndex(options.model);
  if (!index.ok()) return index.status();
  const ServedModel& served = context_.engine->models()[*index];
  if (!served.model->info().predicts) {
    return Refused(Reason::kModelUnfit, "model",
                   absl::StrCat("\"", served.name, "\" encodes; it keeps no sessions"));
  }
  SessionContent content;
  content.model = *index;
  content.record = {
      .id = NewSessionId(),
      .owner = owner,
      .model = served.name,
      .label = options.label,
      .created = context_.clock(),
      .ttl = options.ttl.value_or(context_.options.default_ttl),
      .has_transcript = options.keep_transcript.value_or(context_.options.keep_transcript),
      .add_special_tokens = options.add_special_tokens.value_or(true),
      .creation_key = options.idempotency_key,
      .creation_asked = AskedBy(CallKind::kCreate, options.request_hash)};
  const auto made = Made(content.record, options.durability);
  if (!made.ok()) return made.status();
  if (!made->empty()) return made->front();
  auto version = NewVersion(content, {}, 0);
  if (!version.ok()) return version.status();
  content.present = *std::move(version);
  return Make(std::move(content), options.durability);
}

absl::StatusOr<Version> Maker::NewVersion(const SessionContent& content, const Version& like,
                                          int64_t position) {
  const std::string& owner = content.record.owner;
  const int64_t bytes = places_.VersionBytes(content, position);
  auto place = places_.Reserve(owner, bytes);
  if (!place.ok() && context_.shares_storage()) {  // others may have deleted what is counted here
    if (auto status = neighbours_.LearnStored(); !status.ok()) return status;
    place = places_.Reserve(owner, bytes);
  }
  if (!place.ok()) return place.status();
  Version version = like;
  version.place = *std::move(place);
  return version;
}

absl::StatusOr<std::vector<SessionView>> Maker::Made(const SessionRecord& wanted,
                                                     Durability durability) {
  if (auto status = neighbours_.FindMade(wanted); !status.ok()) return status;
  std::vector<EntryPtr> entries;
  {
    const MutexLock lock(&table_.mutex);
    entries = table_.index.CreatedBy(wanted.owner, wanted.parent_id, wanted.creation_key);
    for (const EntryPtr& entry : entries) {
      const std::string& asked = entry->content->record.creation_asked;
      if (!asked.empty() && asked != wanted.creation_asked) return KeyIsTaken(wanted.creation_key);
      // What is not stored yet, as its call wants it, may still be undone.
      if (entry->state() == EntryState::kMaking) return StillMaking();
    }
  }
  if (auto status = saver_.SaveMade(entries, durability); !status.ok()) return status;
  std::vector<SessionView> views;
  views.reserve(entries.size());
  const MutexLock lock(&table_.mutex);
  for (const EntryPtr& entry : entries) views.push_back(table_.View(*entry));
  return views;
}

EntryPtr Maker::NewEntry(SessionContent content) {
  auto entry = std::make_shared<SessionEntry>(EntryState::kMaking);
  entry->last_used = content.record.created;
  entry->content = std::make_shared<const SessionContent>(std::move(content));
  return entry;
}

absl::Status Maker::Enter(const std::vector<EntryPtr>& entries, size_t made) {
  const SessionRecord& record = entries.front()->content->record;
  bool full = false;
  {
    const MutexLock lock(&table_.mutex);
    full = !table_.CheckCount(record.owner, std::ssize(entries)).ok();
  }
  // Others may have made some that are not known here.
  const int64_t limit = context_.options.max_sessions;
  full = full || (context_.shares_storage() && limit > 0 &&
                  context_.durable->usage().sessions + std::ssize(entries) > limit);
  if (full) {  // others may have deleted what is counted here
    if (auto status = neighbours_.LearnStored(); !status.ok()) return status;
  }
  std::vector<Tiers::Pin> pins;
  for (const EntryPtr& entry : entries) {
    auto pinned = commits_.Anchor(HoldersOf(*entry->content));
    if (!pinned.ok()) return pinned.status();
    std::move(pinned->begin(), pinned->end(), std::back_inserter(pins));
  }
  const MutexLock lock(&table_.mutex);
  if (table_.index.CreatedBy(record.owner, record.parent_id, record.creation_key).size() != made) {
    return StillMaking();
  }
  if (auto status = table_.CheckCount(record.owner, std::ssize(entries)); !status.ok()) {
    return status;
  }
  for (const EntryPtr& entry : entries) {
    for (const auto& [checkpoint, at] : HoldersOf(*entry->content)) {
      tiers_.AddHolder(*checkpoint, at);
    }
    table_.Enlist(entry);
  }
  table_.totals.created += static_cast<int64_t>(entries.size());
  return absl::OkStatus();
}

absl::StatusOr<std::vector<SessionView>> Maker::Finish(const std::vector<EntryPtr>& entries,
                                                       Durability durability) {
  if (auto status = saver_.SaveMade(entries, durability); !status.ok()) {
    for (const EntryPtr& entry : entries) {
      if (saver_.Remove(*entry).ok()) continue;
      const MutexLock lock(&table_.mutex);
      table_.Drop(*entry);  // a copy that cannot be deleted now is found again
    }
    return status;
  }
  std::vector<SessionView> views;
  const MutexLock lock(&table_.mutex);
  for (const EntryPtr& entry : entries) {
    table_.SetMade(*entry);
    views.push_back(table_.View(*entry));
  }
  return views;
}

absl::StatusOr<SessionView> Maker::Make(SessionContent content, Durability durability) {
  const std::vector<EntryPtr> made{NewEntry(std::move(content))};
  if (auto status = Enter(made, 0); !status.ok()) return status;
  auto views = Finish(made, durability);
  if (!views.ok()) return views.status();
  return std::move(views->front());
}

}  // namespace tvq
