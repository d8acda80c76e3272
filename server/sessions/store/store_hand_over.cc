// Sessions that move to another server whole: with id, owner, version, replies and marks.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/quoted.h"
#include "server/sessions/store/store.h"

namespace tvq {

absl::StatusOr<std::unique_ptr<SnapshotStream>> Store::ExportPart(const std::string& id,
                                                                  const std::string& mark) {
  ContentPtr content;
  SessionRecord record;
  {
    const MutexLock lock(&mutex_);
    const EntryPtr entry = table_.Find(id);
    if (entry == nullptr) return absl::NotFoundError(absl::StrCat("there is no session ", id));
    content = entry->content;
    record = entry->Record();
  }
  if (!content->model) return NotServed(content->record);
  if (mark.empty()) return Snapshot(*content, record, content->present, content->replies, {});
  const KeptMark* const kept = content->FindMark(mark);
  if (kept == nullptr) {
    return absl::NotFoundError(absl::StrCat("session ", id, " has no mark ", Quoted(mark)));
  }
  record.version = kept->record.version;
  record.position = kept->record.position;
  record.answer_end = kept->record.answer_end;
  record.marks.clear();
  return Snapshot(*content, record, kept->moment, {}, {});
}

class Store::StoreAdoption : public Adoption {
 public:
  explicit StoreAdoption(Store* store) : store_(store) {}

  absl::Status Add(const std::string& mark, std::unique_ptr<SnapshotUpload> upload) override {
    auto checked = store_->Check("", std::move(upload));
    if (!checked.ok()) return checked.status();
    const SessionRecord& sent = checked->head.record;
    if (auto status = CheckNaming(sent.label, sent.ttl, sent.creation_key); !status.ok()) {
      return status;
    }
    if (!begun_) {
      if (mark.empty()) return AddSession(*std::move(checked));
      return absl::InvalidArgumentError("mark: is set, the session's own snapshot comes first");
    }
    return AddMark(mark, *std::move(checked));
  }

  absl::StatusOr<SessionView> Finish() override {
    for (const KeptMark& mark : content_.marks) {
      if (mark.moment.place != nullptr) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("mark: the snapshot of ", Quoted(mark.record.name), " is missing"));
    }
    const EntryPtr entry = NewEntry(std::move(content_));
    entry->last_used = last_used_;
    return store_->Take(entry);
  }

 private:
  absl::Status AddSession(Checked checked) {
    const std::vector<MarkRecord> marks = checked.head.record.marks;
    const std::vector<Outcome> outcomes = std::move(checked.head.outcomes);
    last_used_ = checked.head.record.last_used;
    auto content = store_->ContentOf(std::move(checked));
    if (!content.ok()) return content.status();
    content_ = *std::move(content);
    for (const Outcome& outcome : outcomes) {
      content_.replies.Restore(outcome.idempotency_key, outcome.reply);
    }
    for (const MarkRecord& record : marks) {
      KeptMark mark{.record = record};
      if (record.version == content_.record.version) {  // it is at the present state
        if (record.position != content_.record.position) {
          return absl::InvalidArgumentError(
              absl::StrCat("snapshot: mark ", Quoted(record.name), " is at position ",
                           record.position, ", its version at ", content_.record.position));
        }
        auto moment = store_->NewMoment(content_, content_.present, record.position);
        if (!moment.ok()) return moment.status();
        mark.moment = *std::move(moment);
      }
      content_.marks.push_back(std::move(mark));
    }
    content_.present.place->Force(store_->PresentBytes(content_));
    begun_ = true;
    return absl::OkStatus();
  }

  absl::Status AddMark(const std::string& name, Checked checked) {
    const SessionRecord& of = checked.head.record;
    const auto mark = std::find_if(content_.marks.begin(), content_.marks.end(),
                                   [&](const KeptMark& m) { return m.record.name == name; });
    if (mark == content_.marks.end() || mark->moment.place != nullptr) {
      return absl::InvalidArgumentError(absl::StrCat(
          "mark: is ", Quoted(name), ", which the session has not, or which was sent already"));
    }
    if (of.id != content_.record.id || of.version != mark->record.version ||
        of.position != mark->record.position || checked.model != *content_.model ||
        of.has_transcript != content_.record.has_transcript) {
      return absl::InvalidArgumentError(
          absl::StrCat("mark: the snapshot is not that of ", Quoted(name)));
    }
    auto moment = store_->MomentOf(content_, checked);
    if (!moment.ok()) return moment.status();
    mark->moment = *std::move(moment);
    return absl::OkStatus();
  }

  Store* const store_;
  bool begun_ = false;
  SessionContent content_;
  absl::Time last_used_;
};

std::unique_ptr<Adoption> Store::Adopt() { return std::make_unique<StoreAdoption>(this); }

absl::StatusOr<SessionView> Store::Take(const EntryPtr& entry) {
  const SessionRecord& record = entry->content->record;
  if (auto status = Refresh(record.owner, record.id, /*claim=*/true); !status.ok()) return status;
  // A checkpoint that nobody holds is never given up: what was added is still there.
  const MutexLock lock(&mutex_);
  if (const EntryPtr known = table_.Find(record.id); known != nullptr) {
    const int64_t version = known->content->record.version;
    if (version >= record.version) {
      return absl::AlreadyExistsError(absl::StrCat("session ", record.id, " is here at version ",
                                                   version, ", the snapshot is of version ",
                                                   record.version));
    }
    if (known->leased) return Busy(record.id);
    // Its copy, if there is one, is replaced when this one is stored, and goes when this one goes.
    entry->persisted_version = known->persisted_version;
    entry->stored_use = known->stored_use;
    entry->may_be_stored = known->may_be_stored.load();
    Drop(*known);
  } else if (auto status = CheckTotal(record.owner, 1); !status.ok()) {
    return status;
  }
  for (const auto& [checkpoint, at] : HoldsOf(*entry->content)) tiers_->Hold(*checkpoint, at);
  entry->leased = false;
  Enlist(entry);
  return View(*entry);
}

}  // namespace tvq
