// A session in the store's table, and the states that it can be in there.
#ifndef TVQ_SERVER_SESSIONS_STORE_ENTRY_H_
#define TVQ_SERVER_SESSIONS_STORE_ENTRY_H_

#include <array>
#include <atomic>
#include <compare>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/time/time.h"
#include "base/mutex.h"
#include "server/sessions/record/session_record.h"
#include "server/sessions/store/content.h"

namespace tvq {

// A session is this server's if no other server may write it, as far as this one knows: it has
// claimed the session on the durable tier, or the tier is not shared, or the session was never
// stored. A session is taken by a call, or by what ends it, claims it anew or gives it up.
enum class EntryState {
  kMaking,   // the call that makes it has not succeeded yet
  kIdle,     // this server's; nothing has taken it
  kLeased,   // this server's, and taken: one call may change it
  kForeign,  // another server's, maybe; what is known here may be old
  kTaking,   // a foreign one that is taken, to be claimed or ended
  kGone,     // not in the table any more; a call may still refer to it
};

// An entry begins as kMaking, or as kIdle or kForeign if it was read from the durable tier. These
// are all moves from there:
struct EntryMove {
  EntryState from, to;
  auto operator<=>(const EntryMove&) const = default;
};
inline constexpr std::array<EntryMove, 10> kEntryMoves{{
    {EntryState::kMaking, EntryState::kIdle},     // made, and stored if the call wants that
    {EntryState::kMaking, EntryState::kGone},     // it could not be stored
    {EntryState::kIdle, EntryState::kLeased},     // taken
    {EntryState::kIdle, EntryState::kGone},       // what another server stored takes its place
    {EntryState::kLeased, EntryState::kIdle},     // given back
    {EntryState::kLeased, EntryState::kGone},     // deleted; or as from kIdle, by what took it
    {EntryState::kForeign, EntryState::kTaking},  // taken
    {EntryState::kForeign, EntryState::kGone},    // what is stored now takes its place
    {EntryState::kTaking, EntryState::kForeign},  // the tier was away, or another server used it
    {EntryState::kTaking, EntryState::kGone},     // claimed: read anew; or its time was over
}};
constexpr bool MayMove(EntryState from, EntryState to) {
  for (const EntryMove& move : kEntryMoves) {
    if (move == EntryMove{from, to}) return true;
  }
  return false;
}

// Guarded by the table's mutex, but for `saving` and `may_be_stored`.
class SessionEntry {
 public:
  explicit SessionEntry(EntryState first) : state_(first) {}

  ContentPtr content;
  int64_t persisted_version = 0;
  absl::Time last_used;
  absl::Time stored_use = absl::InfinitePast();  // the last use, as the durable tier knows it
  // What the next call is to be told once, ABORTED: a version was lost.
  std::string lost;

  // Held while the session is written to the durable tier or removed from there; not under the
  // table's mutex.
  Mutex saving;
  std::atomic<bool> may_be_stored = false;  // the durable tier was asked to keep it

  EntryState state() const { return state_; }
  // Aborts unless it is one of kEntryMoves.
  void Move(EntryState to);
  // A call has it: no other may change it.
  bool leased() const {
    return state_ == EntryState::kMaking || state_ == EntryState::kLeased ||
           state_ == EntryState::kTaking;
  }
  bool foreign() const { return state_ == EntryState::kForeign || state_ == EntryState::kTaking; }
  bool gone() const { return state_ == EntryState::kGone; }
  bool saved() const { return persisted_version == content->record.version; }

  SessionRecord Record() const;

 private:
  EntryState state_;
};
using EntryPtr = std::shared_ptr<SessionEntry>;

}  // namespace tvq

#endif  // TVQ_SERVER_SESSIONS_STORE_ENTRY_H_
