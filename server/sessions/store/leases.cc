#include "server/sessions/store/leases.h"

#include "absl/strings/str_cat.h"
#include "base/refusal.h"
#include "server/sessions/store/call_checks.h"

namespace tvq {
namespace {

constexpr int kMaxClaims = 10;  // each but the first follows another call that looked meanwhile

// What a call with this key was answered before. Nothing for Fork, which looks for what it made,
// nor for Save and Delete: doing them twice is the same as once.
absl::StatusOr<std::optional<std::string>> FindReply(const Replies& replies, CallKind kind,
                                                     const SessionCall& call) {
  if (kind == CallKind::kFork || kind == CallKind::kSave || kind == CallKind::kDelete) {
    return std::nullopt;
  }
  return replies.Find(call.idempotency_key, AskedBy(kind, call.request_hash));
}

}  // namespace

absl::StatusOr<Begun> Leases::Begin(const SessionCall& call, CallKind kind) {
  if (auto status = CheckNaming("", {}, call.idempotency_key); !status.ok()) return status;
  if (auto status = context_.CheckDurability(call.durability); !status.ok()) return status;
  Begun begun;
  for (int tries = kMaxClaims; !begun.lease && !begun.reply; --tries) {
    if (tries == 0) return Overtaken(call.id);
    auto status = claims_.Refresh(call.owner, call.id, /*claim=*/true);
    if (status.ok()) status = Lock(call, kind, begun);
    if (!status.ok()) return status;
  }
  if (begun.lease) {
    if (auto status = Look(call, kind, begun); !status.ok()) return status;
  }
  // The first call may have promised less than its retry does.
  if (begun.reply && call.durability == Durability::kDisk) {
    if (auto status = saver_.Save(*begun.entry); !status.ok()) return status;
  }
  return begun;
}

absl::Status Leases::Lock(const SessionCall& call, CallKind kind, Begun& begun) {
  const MutexLock lock(&table_.mutex);
  auto found = table_.Find(call.owner, call.id);
  if (!found.ok()) return found.status();
  begun.entry = *std::move(found);
  SessionEntry& entry = *begun.entry;
  const SessionRecord& record = entry.content->record;
  auto reply = FindReply(entry.content->replies, kind, call);
  if (!reply.ok()) return reply.status();
  begun.reply = *std::move(reply);
  if (begun.reply) return absl::OkStatus();
  if (!entry.content->model && kind != CallKind::kDelete) return NotServed(record);
  if (!entry.lost.empty() && kind != CallKind::kDelete) {
    return Refused(Reason::kSessionMoved, std::exchange(entry.lost, ""));
  }
  if (entry.leased()) {
    auto busy = Busy(record.id);
    if (call.idempotency_key.empty()) return busy;
    return WithRefusal(
        RefusalOf(busy),
        absl::StrCat(busy.message(),
                     "; if that is the first call with this idempotency_key, try again"));
  }
  if (entry.foreign()) return absl::OkStatus();
  // Before it leases, so that no other call hears that the session is busy. A retry loads first:
  // only then is its reply known.
  if (call.idempotency_key.empty()) {
    if (auto status = CheckVersion(call, record); !status.ok()) return status;
  }
  table_.Take(entry);
  begun.lease.emplace(table_, begun.entry);
  return absl::OkStatus();
}

absl::Status Leases::Look(const SessionCall& call, CallKind kind, Begun& begun) {
  if (kind != CallKind::kDelete) {  // what is stored may be too damaged to load, but not to delete
    auto status = loader_.LoadPresent(*begun.entry, begun.state_head);
    // Damage does not stop a rewind to a mark or its fork. A fork of the lost state fails later.
    const bool may_do_without = kind == CallKind::kRewind || kind == CallKind::kFork;
    if (!status.ok() && !(may_do_without && absl::IsDataLoss(status))) return status;
  }
  const MutexLock lock(&table_.mutex);
  const SessionContent& content = *begun.entry->content;
  auto reply = FindReply(content.replies, kind, call);  // known only after loading
  if (!reply.ok()) return reply.status();
  begun.reply = *std::move(reply);
  if (!begun.reply) {
    if (auto status = CheckVersion(call, content.record); !status.ok()) return status;
  }
  table_.index.Touch(*begun.entry, context_.clock());
  return absl::OkStatus();
}

}  // namespace tvq
