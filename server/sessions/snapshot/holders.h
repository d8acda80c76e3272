// The sessions and marks that are at a state.
#ifndef TVQ_SERVER_SESSIONS_SNAPSHOT_HOLDERS_H_
#define TVQ_SERVER_SESSIONS_SNAPSHOT_HOLDERS_H_

#include <compare>
#include <cstdint>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <utility>

namespace tvq {

// A place on the durable tier.
struct StoredPlace {
  std::string id;  // of the session
  int64_t version = 0;
  auto operator<=>(const StoredPlace&) const = default;
};

// Each holder by its place, and whether the durable tier has the state there. There may be very
// many: nothing looks at more than a few. Thread-compatible.
class Holders {
 public:
  bool empty() const { return stored_.empty() && unstored_.empty(); }
  bool any_stored() const { return !stored_.empty(); }
  bool all_stored() const { return unstored_.empty() && !stored_.empty(); }
  bool IsStored(const StoredPlace& at) const { return stored_.contains(at); }

  void Add(StoredPlace at, bool stored) { (stored ? stored_ : unstored_).insert(std::move(at)); }
  void Remove(const StoredPlace& at) {
    stored_.erase(at);
    unstored_.erase(at);
  }
  // Of one that is there; nothing happens otherwise.
  void SetStored(const StoredPlace& at, bool stored) {
    if ((stored ? unstored_ : stored_).erase(at) > 0) Add(at, stored);
  }

  // The first in the order of ids and versions that is stored and comes after `at`.
  std::optional<StoredPlace> NextStored(const StoredPlace& at) const {
    const auto next = stored_.upper_bound(at);
    return next == stored_.end() ? std::nullopt : std::optional(*next);
  }
  // The session of one that is not stored; there must be one.
  const std::string& FirstUnstored() const { return unstored_.begin()->id; }
  bool HasUnstored(const std::string& id) const {
    const auto first = unstored_.lower_bound({id, std::numeric_limits<int64_t>::min()});
    return first != unstored_.end() && first->id == id;
  }

 private:
  // A holder is in one of them.
  std::set<StoredPlace> stored_;
  std::set<StoredPlace> unstored_;
};

}  // namespace tvq

#endif  // TVQ_SERVER_SESSIONS_SNAPSHOT_HOLDERS_H_
