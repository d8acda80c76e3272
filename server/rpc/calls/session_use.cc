#include "server/rpc/calls/session_use.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/refusal.h"
#include "server/rpc/wire/session_convert.h"

namespace tvq {
namespace {

// A kept reply is one of these and the reply or, if that was too large, the position alone.
constexpr char kWhole = '=';
constexpr char kTooLarge = '!';

absl::Status Damaged() {
  return Refused(Reason::kStoredDataDamaged, "session.idempotency_key",
                 "what the first call was answered is damaged");
}

}  // namespace

absl::Status ParseReply(const std::string& reply, google::protobuf::Message* message) {
  return message->ParseFromString(reply) ? absl::OkStatus() : Damaged();
}

absl::StatusOr<std::unique_ptr<SessionUse>> SessionUse::Open(SessionStore* store,
                                                             const SessionCall& call,
                                                             bool commit_on_cancel) {
  auto lease = store->Acquire(call);
  if (!lease.ok()) return lease.status();
  return std::unique_ptr<SessionUse>(new SessionUse(call, commit_on_cancel, *std::move(lease)));
}

absl::StatusOr<std::optional<std::string>> SessionUse::Replay() const {
  const std::optional<std::string>& kept = lease_->replay();
  if (!kept) return std::nullopt;
  const char mark = kept->empty() ? '\0' : kept->front();
  if (mark == kWhole) return kept->substr(1);
  if (mark != kTooLarge) return Damaged();
  v1::SessionPosition position;
  if (auto status = ParseReply(kept->substr(1), &position); !status.ok()) return status;
  return Refused(
      Reason::kReplyNotKept, "session.idempotency_key",
      absl::StrCat("the first call was done and committed version ", position.version(),
                   " at position ", position.position(), ", but its output has more than ",
                   kMaxReplyBytes, " bytes and was not kept"));
}

absl::StatusOr<ConversationTurn> SessionUse::GoOn(const ConversationWriter& writer,
                                                  Conversation whole) {
  const auto held = lease_->Transcript();
  if (!held.ok()) return held.status();
  if (held->empty()) return ConversationTurn{std::move(whole.ids)};
  auto next = writer.Continue(whole, *held);
  if (!next.ok()) return next.status();
  const int64_t position = std::ssize(*held);
  if (next->kept < 0 || next->kept > position) std::abort();
  if (next->kept == position) return ConversationTurn{std::move(next->ids)};
  std::vector<int32_t> wanted(held->begin(), held->begin() + next->kept);
  wanted.insert(wanted.end(), next->ids.begin(), next->ids.end());
  const auto back = lease_->GoBack(wanted);
  if (!back.ok()) return back.status();
  ConversationTurn turn{{wanted.begin() + *back, wanted.end()}};
  turn.reread = std::min(position - *back, std::ssize(turn.ids));
  return turn;
}

absl::Status SessionUse::Continue(Request* request) {
  request->start = lease_->Start();
  request->keep = true;
  request->keep_on_cancel = commit_on_cancel_;
  return lease_->Reserve(MostTokens(*request));
}

v1::SessionPosition SessionUse::Next() const {
  v1::SessionPosition position = PositionOf(record());
  position.set_version(record().version + 1);
  position.set_position(record().position + static_cast<int64_t>(end_->tokens.size()));
  if (call_.durability == Durability::kDisk) position.set_persisted_version(position.version());
  return position;
}

absl::StatusOr<v1::SessionPosition> SessionUse::Commit(std::optional<std::string> reply) {
  std::string kept;
  if (keeps_reply()) {
    const bool fits = reply && reply->size() < kMaxReplyBytes;  // with its mark
    kept = fits ? kWhole : kTooLarge;
    kept += fits ? *reply : Next().SerializeAsString();
  }
  auto view = lease_->Commit(*std::exchange(end_, std::nullopt), std::move(kept));
  if (!view.ok()) return view.status();
  return PositionOf(view->record);
}

}  // namespace tvq
