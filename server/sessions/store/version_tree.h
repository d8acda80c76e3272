// Forks, marks and the way back to them. All of them copy pointers, never a state.
#ifndef TVQ_SERVER_SESSIONS_STORE_VERSION_TREE_H_
#define TVQ_SERVER_SESSIONS_STORE_VERSION_TREE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/sessions/session_store.h"
#include "server/sessions/store/claims.h"
#include "server/sessions/store/commits.h"
#include "server/sessions/store/content.h"
#include "server/sessions/store/context.h"
#include "server/sessions/store/leases.h"
#include "server/sessions/store/loader.h"
#include "server/sessions/store/maker.h"
#include "server/sessions/store/places.h"
#include "server/sessions/store/session_table.h"

namespace tvq {

// The calls of SessionStore with these names. Thread-safe.
class VersionTree {
 public:
  VersionTree(const StoreContext& context, const Places& places, SessionTable& table,
              Loader& loader, Claims& claims, Leases& leases, Commits& commits, Maker& maker)
      : context_(context),
        places_(places),
        table_(table),
        loader_(loader),
        claims_(claims),
        leases_(leases),
        commits_(commits),
        maker_(maker) {}

  absl::StatusOr<std::vector<SessionView>> Fork(const SessionCall& call,
                                                const ForkOptions& options);
  absl::StatusOr<SessionView> Mark(const SessionCall& call, const std::string& name);
  absl::StatusOr<SessionView> Unmark(const SessionCall& call, const std::string& name);
  absl::StatusOr<SessionView> Rewind(const SessionCall& call, const std::string& name);

 private:
  absl::StatusOr<SessionContent> Child(const SessionContent& parent, const SessionCall& call,
                                       const ForkOptions& options);
  // Another like a fork that is as it was made.
  absl::StatusOr<SessionContent> Twin(const SessionContent& fork);
  // The content of a fork that has not changed since it was made; else FAILED_PRECONDITION.
  absl::StatusOr<ContentPtr> Untouched(const std::vector<SessionView>& forks) const;

  const StoreContext& context_;
  const Places& places_;
  SessionTable& table_;
  Loader& loader_;
  Claims& claims_;
  Leases& leases_;
  Commits& commits_;
  Maker& maker_;
};

}  // namespace tvq

#endif  // TVQ_SERVER_SESSIONS_STORE_VERSION_TREE_H_
