// Finds sessions by id, by owner, by the call that made them and by the end of their time-to-live.
#ifndef TVQ_SERVER_SESSIONS_STORE_SESSION_INDEX_H_
#define TVQ_SERVER_SESSIONS_STORE_SESSION_INDEX_H_

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "server/sessions/session_store.h"
#include "server/sessions/store/entry.h"

namespace tvq {

// Plain data, no I/O. Thread-compatible.
class SessionIndex {
 public:
  // The id must be new.
  void Insert(EntryPtr entry);
  void Erase(const std::string& id);

  // The session is used: its time-to-live begins anew.
  void Touch(SessionEntry& entry, absl::Time now);
  using End = std::pair<absl::Time, std::string>;  // of a time-to-live, id
  // Shows sessions whose time-to-live is over at `now`: at most `most`, in the order of their ends,
  // those behind `*after` first, then the others; until `visit` returns false. Sets `*after` to the
  // last one shown, and returns how many were.
  int64_t VisitEnded(absl::Time now, int64_t most, End* after,
                     const std::function<bool(const EntryPtr&)>& visit) const;

  // Null if there is none, of any owner.
  EntryPtr Find(const std::string& id) const;
  // What a call with this idempotency key made: by Create and Import with an empty `parent_id`, by
  // Fork with the parent's. Oldest first.
  std::vector<EntryPtr> CreatedBy(const std::string& owner, const std::string& parent_id,
                                  const std::string& key) const;
  int64_t CountOf(const std::string& owner) const;

  using Age = std::pair<int64_t, std::string>;  // created (ns), id
  // A look for up to `page_size` of the owner's sessions that the filter lets through, fewer if
  // they have many marks, oldest first. It may go on after the index has changed.
  struct Search {
    std::string owner;
    ListFilter filter;
    int64_t page_size = 0;
    Age after{INT64_MIN, ""};  // the last session that was looked at

    int64_t found = 0;
    int64_t bytes = 0;            // of the records of those
    Age last;                     // of those
    bool done = false;            // there are no more, or these are all that may be
    std::string next_page_token;  // when it is done; empty: there are no more
  };
  // Sets where the search begins: after the session that the token names. INVALID_ARGUMENT for a
  // token that is none.
  static absl::Status SetStart(const std::string& page_token, Search* search);
  // Looks at no more than `most` sessions; returns those found.
  std::vector<EntryPtr> Look(int64_t most, Search* search) const;

  // Every session, in no order. It must not be changed meanwhile.
  void ForEach(const std::function<void(const EntryPtr&)>& visit) const;
  int64_t size() const { return static_cast<int64_t>(by_id_.size()); }

 private:
  using Call = std::tuple<std::string, std::string, std::string>;  // owner, parent, key
  static Age AgeOf(const SessionRecord& record);
  static End EndOf(const SessionEntry& entry);

  std::unordered_map<std::string, EntryPtr> by_id_;
  std::map<std::string, std::set<Age>> by_owner_;
  std::map<Call, std::set<Age>> by_call_;
  std::set<End> by_end_;  // those that have one
};

}  // namespace tvq

#endif  // TVQ_SERVER_SESSIONS_STORE_SESSION_INDEX_H_
