// Which server may write a session, where servers share the durable tier.
#ifndef TVQ_SERVER_SESSIONS_STORE_CLAIMS_H_
#define TVQ_SERVER_SESSIONS_STORE_CLAIMS_H_

#include <cstdint>
#include <set>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "server/sessions/placement/tiers.h"
#include "server/sessions/store/context.h"
#include "server/sessions/store/entry.h"
#include "server/sessions/store/loader.h"
#include "server/sessions/store/session_table.h"

namespace tvq {

// A claim is this server's right to write a session on a shared tier. The tier ends it when another
// server claims the session; this one finds that out when it looks or is refused. Thread-safe.
class Claims {
 public:
  Claims(const StoreContext& context, Tiers& tiers, SessionTable& table, Loader& loader)
      : context_(context), tiers_(tiers), table_(table), loader_(loader) {}

  // Brings what is known of the session up to date, and claims it if `claim`, unless another call
  // changes meanwhile what is known. Does nothing where the tier is not shared. Blocks.
  absl::Status Refresh(const std::string& owner, const std::string& id, bool claim);

  // How a claim that this server had stands now.
  enum class Standing {
    kHolds,
    kOvertaken,  // another server has claimed or deleted the session
    kMoved,      // another version is stored than this server was told, and its own is nowhere
  };
  absl::StatusOr<Standing> Compare(SessionEntry& entry);

  // Puts `next` in the place of `known`. `next` is what is stored; null: nothing is. `known` is
  // null for a session that was not known. Waits for a call that claims the session. Changes
  // nothing if something else has taken the place of `known` since. Returns false, and changes
  // nothing, if a call has it: that call knows better.
  bool Replace(const std::string& id, const EntryPtr& known, EntryPtr next,
               Standing standing = Standing::kHolds);

  // The durable tier refused what this server wanted to write: if that is because another server
  // has the session now, what is stored takes the place of what is here.
  void GiveUpIfOvertaken(SessionEntry& entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(entry.saving);

  // What was thought to be stored up to `persisted_version` is not, or no longer.
  void Unstore(SessionEntry& entry, int64_t persisted_version);

 private:
  // Until no call is claiming the session.
  void AwaitClaim(const std::string& id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(table_.mutex);
  // Reads the session anew, which is known as `known`, null for not at all.
  absl::Status Reload(const std::string& owner, const std::string& id, const EntryPtr& known,
                      Standing standing, bool claim);
  // Exchanges them, and returns what was lost by that, for people to read; empty: nothing.
  std::string Exchange(const std::string& id, const EntryPtr& known, EntryPtr next,
                       Standing standing) ABSL_EXCLUSIVE_LOCKS_REQUIRED(table_.mutex);
  // As Replace, for a caller that has taken `known` or is claiming the session.
  void ReplaceTaken(const std::string& id, const EntryPtr& known, EntryPtr next, Standing standing);
  void Tell(const std::string& loss) const;

  const StoreContext& context_;
  Tiers& tiers_;
  SessionTable& table_;
  Loader& loader_;
  std::set<std::string> claiming_ ABSL_GUARDED_BY(table_.mutex);  // ids, each by one call
  Changed claimed_;
};

}  // namespace tvq

#endif  // TVQ_SERVER_SESSIONS_STORE_CLAIMS_H_
