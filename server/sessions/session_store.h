// All sessions of a server: a tree of versioned states, each call on one of them atomic.
#ifndef TVQ_SERVER_SESSIONS_SESSION_STORE_H_
#define TVQ_SERVER_SESSIONS_SESSION_STORE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/engine/engine.h"
#include "server/engine/request/continuation.h"
#include "server/sessions/durable/durable_tier.h"
#include "server/sessions/record/session_limits.h"
#include "server/sessions/record/session_record.h"
#include "server/sessions/record/session_stats.h"
#include "server/sessions/record/token_log.h"
#include "server/sessions/snapshot/byte_stream.h"
#include "server/sessions/snapshot/snapshot_stream.h"

namespace tvq {

struct SessionOptions {
  int64_t host_bytes = 0;  // of states in host memory; room for one at least
  absl::Duration default_ttl = absl::InfiniteDuration();
  bool keep_transcript = true;         // when a session does not say
  int64_t max_sessions = 1'000'000;    // of all owners; 0: no limit
  int64_t max_sessions_per_owner = 0;  // 0: no limit but that an owner leaves some to others
  int64_t max_bytes_per_owner = 0;     // of states, marks, transcripts, replies; 0: no limit
  int64_t max_snapshot_bytes = 0;      // of an import; 0: what the largest model needs, and more
  int64_t prefix_bytes = 0;            // of states of common prompts; 0: none are kept
  int64_t stored_prefix_bytes = 0;     // of those on the durable tier; 0: none are stored
  // Beside the model, this decides which stored states of common prompts are this server's own: it
  // names what computes their bits, and what owners the server has.
  std::string prefix_scope;
  std::vector<std::string> shared_prompts;  // texts whose states every owner may use
  // Told of every version and stored prefix that is lost, for people to read. Any thread; must not
  // use the store.
  std::function<void(const std::string& message)> on_loss;
};

// Where a committed state lies; the first of the places that apply.
enum class Tier { kDevice, kHost, kDurable };

// A record and what is not part of it.
struct SessionView {
  SessionRecord record;
  Tier tier = Tier::kDevice;
  int64_t bytes = 0;  // of the state, marks not counted
};

// A session and its token ids, of one version; no ids if it has no transcript. Shares the ids.
struct SessionTranscript {
  SessionView view;
  TokenLog tokens;
};

// kDefault: as kMemory. What a call makes (Create, Fork, Import) is stored all the same where
// servers share the durable tier, if it can be reached: the next call may come to another server.
enum class Durability { kDefault, kMemory, kDisk };

// How a call uses a session, as the wire says.
struct SessionCall {
  std::string owner;
  std::string id;
  std::optional<int64_t> expected_version;
  Durability durability = Durability::kDefault;
  std::string idempotency_key;
  // Of what the call asks, the same for a retry: a key belongs to one request.
  uint64_t request_hash = 0;
};

struct CreateOptions {
  std::string model;  // a served name; of an import: empty, or the model that the snapshot must fit
  std::optional<absl::Duration> ttl;
  std::optional<bool> keep_transcript;
  std::optional<bool> add_special_tokens;  // unset: true, or as the snapshot says
  std::string label;
  Durability durability = Durability::kDefault;
  std::string idempotency_key;
  uint64_t request_hash = 0;  // as in SessionCall
};

struct ForkOptions {
  std::optional<absl::Duration> ttl;  // unset: as the parent
  std::string label;
  int32_t count = 1;
  std::string mark;  // empty: the present state
};

struct ListFilter {
  std::string model;      // empty: all
  std::string parent_id;  // empty: all
};

struct SessionPage {
  std::vector<SessionView> sessions;
  std::string next_page_token;  // empty: the last page
};

// An export asks it before it takes memory: `kept` bytes until the stream is read, of a snapshot of
// `total` bytes. It asks again, for the new totals, when it knows more. Empty: there is room.
using ExportRoom = std::function<absl::Status(int64_t kept, int64_t total)>;

// What a state may have grown by when it is uploaded, unless the operator says otherwise: uploads
// lie in host memory that nothing else is planned for.
inline constexpr int64_t kMostUploadGrowth = int64_t{256} << 20;

// The right to change one session, exclusive until it is destroyed. Any one thread at a time.
class Lease {
 public:
  virtual ~Lease() = default;

  // After GoBack with position and answer_end of where the call goes on.
  virtual const SessionRecord& record() const = 0;

  // What an earlier call with this idempotency key was answered; the call is not to be done again.
  virtual const std::optional<std::string>& replay() const = 0;

  // For Request::start; nothing for a session without tokens.
  virtual std::optional<StartPoint> Start() = 0;

  // The session's token ids. FAILED_PRECONDITION if it does not keep them.
  virtual absl::StatusOr<std::vector<int32_t>> Transcript() const = 0;

  // Finds the furthest place of the session, now or at a mark, that holds the first of `tokens` and
  // nothing else, or else its beginning. Makes Start, Reserve and Commit go on from there, and
  // returns its position. If states can be cut, that place may lie anywhere. Only a commit changes
  // the session. Blocks. For a session with a transcript.
  virtual absl::StatusOr<int64_t> GoBack(std::span<const int32_t> tokens) = 0;

  // Makes sure that Commit will not lack the room for a state at `position`, where states grow, so
  // that nothing is computed that cannot be kept (but for the reply that is kept for a retry).
  // RESOURCE_EXHAUSTED if there is not so much, FAILED_PRECONDITION if there can never be. What the
  // commit does not need is given back then, or with the lease.
  virtual absl::Status Reserve(int64_t position) = 0;

  // Makes `next` the session's state: version + 1. `reply` is kept for retries, if the call has an
  // idempotency key; it must not have more than kMaxReplyBytes then. With Durability::kDisk,
  // returns when it is stored; if that fails the commit is undone. Blocks. Once.
  virtual absl::StatusOr<SessionView> Commit(Continuation next, std::string reply) = 0;
};

// Errors, as everywhere: NOT_FOUND for no session of this id or one of another owner, ABORTED for a
// session that another call works on or at another version than expected, DATA_LOSS for a stored
// state found corrupt, INVALID_ARGUMENT for an idempotency key that belongs to a call that asked
// something else, FAILED_PRECONDITION for a snapshot of another model, dtype or later format,
// RESOURCE_EXHAUSTED for a full tier or the owner's limit, UNAVAILABLE while draining or when the
// durable tier cannot be reached. Methods may block on disk or network, and are not for the
// engine's loop. Thread-safe.
class SessionStore {
 public:
  // `engine` must outlive the store; `durable` may be null: sessions then end with the process. So
  // do states of common prompts without `prefixes`, a tier for these alone. Finds what is stored.
  static absl::StatusOr<std::unique_ptr<SessionStore>> Open(
      Engine* engine, const SessionOptions& options, std::unique_ptr<DurableTier> durable,
      std::unique_ptr<DurableTier> prefixes = nullptr);
  virtual ~SessionStore() = default;

  virtual absl::StatusOr<SessionView> Create(const std::string& owner,
                                             const CreateOptions& options) = 0;
  virtual absl::StatusOr<SessionView> Get(const std::string& owner, const std::string& id) = 0;
  virtual absl::StatusOr<SessionTranscript> Transcript(const std::string& owner,
                                                       const std::string& id) = 0;
  // Oldest first.
  virtual absl::StatusOr<SessionPage> List(const std::string& owner, const ListFilter& filter,
                                           int64_t page_size, const std::string& page_token) = 0;

  virtual absl::StatusOr<std::vector<SessionView>> Fork(const SessionCall& call,
                                                        const ForkOptions& options) = 0;
  virtual absl::StatusOr<SessionView> Mark(const SessionCall& call, const std::string& name) = 0;
  virtual absl::StatusOr<SessionView> Unmark(const SessionCall& call, const std::string& name) = 0;
  virtual absl::StatusOr<SessionView> Rewind(const SessionCall& call, const std::string& name) = 0;
  // FAILED_PRECONDITION on a server without a durable tier.
  virtual absl::StatusOr<SessionView> Save(const SessionCall& call) = 0;
  virtual absl::Status Delete(const SessionCall& call) = 0;

  // Of the committed state, also while another call works on the session. An error of `room` is
  // returned.
  virtual absl::StatusOr<std::unique_ptr<SnapshotStream>> Export(const SessionCall& call,
                                                                 const ExportRoom& room) = 0;
  virtual int64_t max_upload_bytes() const = 0;
  virtual std::unique_ptr<SnapshotUpload> NewUpload() = 0;
  // INVALID_ARGUMENT for a corrupt snapshot.
  virtual absl::StatusOr<SessionView> Import(const std::string& owner, const CreateOptions& options,
                                             std::unique_ptr<SnapshotUpload> upload) = 0;
  // For a call that computes on the session.
  virtual absl::StatusOr<std::unique_ptr<Lease>> Acquire(const SessionCall& call) = 0;

  // Without a session: an uploaded state to start from, of the served model `model`, and the
  // snapshot of what a request left.
  virtual absl::StatusOr<std::optional<StartPoint>> StartFrom(
      const std::string& model, std::unique_ptr<SnapshotUpload> upload) = 0;
  virtual absl::StatusOr<std::unique_ptr<SnapshotStream>> ToSnapshot(const std::string& model,
                                                                     Continuation end) = 0;

  // Lets the request use and feed the states of common prompts: sets start, prefix_marks and
  // prefixes of a request without a start.
  virtual void UsePrefixes(Request* request) = 0;

  // From now on every new version is stored before its call ends, whatever durability the call
  // asked for, if the tier can be reached: other servers are about to be asked for the sessions.
  virtual void Leave() = 0;
  // Stores whatever is not stored; returns how many sessions could not be, at the latest at
  // `until`. What calls change meanwhile may be left.
  virtual int64_t Flush(SteadyTime until) = 0;
  // All sessions, of every owner.
  virtual std::vector<SessionRecord> Records() const = 0;

  // Whether what is stored lies where other servers find it.
  virtual bool shares_storage() const = 0;

  virtual SessionStats stats() const = 0;
};

}  // namespace tvq

#endif  // TVQ_SERVER_SESSIONS_SESSION_STORE_H_
