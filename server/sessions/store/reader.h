// Calls that read sessions and change nothing.
#ifndef TVQ_SERVER_SESSIONS_STORE_READER_H_
#define TVQ_SERVER_SESSIONS_STORE_READER_H_

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/sessions/session_store.h"
#include "server/sessions/store/claims.h"
#include "server/sessions/store/content.h"
#include "server/sessions/store/loader.h"
#include "server/sessions/store/neighbours.h"
#include "server/sessions/store/session_table.h"

namespace tvq {

// The calls of SessionStore with these names. Thread-safe.
class Reader {
 public:
  Reader(SessionTable& table, Loader& loader, Claims& claims, Neighbours& neighbours)
      : table_(table), loader_(loader), claims_(claims), neighbours_(neighbours) {}

  absl::StatusOr<SessionView> Get(const std::string& owner, const std::string& id);
  absl::StatusOr<SessionTranscript> Transcript(const std::string& owner, const std::string& id);
  absl::StatusOr<SessionPage> List(const std::string& owner, const ListFilter& filter,
                                   int64_t page_size, const std::string& page_token);

  // Runs `use` on the committed version of a session, again on the next one if a commit meanwhile
  // has dropped what was stored of it. What it reads is of one version.
  using Use = std::function<absl::Status(const SessionContent&, const SessionView&)>;
  absl::Status ReadCommitted(const std::string& owner, const std::string& id, const Use& use);

 private:
  SessionTable& table_;
  Loader& loader_;
  Claims& claims_;
  Neighbours& neighbours_;
};

}  // namespace tvq

#endif  // TVQ_SERVER_SESSIONS_STORE_READER_H_
