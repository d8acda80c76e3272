// Sessions on the server: a model's state that stays between calls. proto/tvq/v1/session.proto is
// the reference. To generate or score on a session, name it in the request of Client::Generate or
// Client::Score.
//
//   auto session = client->sessions().Create({});
//   tvq::v1::AppendSessionRequest request;
//   request.mutable_session()->set_session_id(session->id());
//   request.set_text("Once upon a time");
//   auto appended = client->sessions().Append(request);
#ifndef TVQ_CLIENT_CPP_SESSIONS_H_
#define TVQ_CLIENT_CPP_SESSIONS_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/cpp/call.h"
#include "tvq/v1/session.pb.h"

namespace tvq::client {

using ExportStream = Stream<v1::ExportSessionResponse>;

// Thread-safe. Every call is atomic; ABORTED if another call writes to the session or the expected
// version is not the session's; UNIMPLEMENTED by a server without sessions.
class Sessions {
 public:
  virtual ~Sessions() = default;

  virtual absl::StatusOr<v1::Session> Create(const v1::CreateSessionRequest& request,
                                             const CallOptions& options = {}) = 0;
  virtual absl::StatusOr<v1::GetSessionResponse> Get(const v1::GetSessionRequest& request,
                                                     const CallOptions& options = {}) = 0;
  // The session with all its token ids, of one version: a long transcript comes in several
  // answers, which are read again when another call writes meanwhile. The options hold for each.
  absl::StatusOr<v1::GetSessionResponse> GetWithTranscript(const std::string& session_id,
                                                           const CallOptions& options = {});
  // One page.
  virtual absl::StatusOr<v1::ListSessionsResponse> List(const v1::ListSessionsRequest& request,
                                                        const CallOptions& options = {}) = 0;
  // All pages from `request`'s on; the options hold for each.
  absl::StatusOr<std::vector<v1::Session>> ListAll(v1::ListSessionsRequest request,
                                                   const CallOptions& options = {});

  virtual absl::StatusOr<v1::AppendSessionResponse> Append(const v1::AppendSessionRequest& request,
                                                           const CallOptions& options = {}) = 0;
  // request.count() sessions, at least one.
  virtual absl::StatusOr<std::vector<v1::Session>> Fork(const v1::ForkSessionRequest& request,
                                                        const CallOptions& options = {}) = 0;
  virtual absl::StatusOr<v1::SessionPosition> Mark(const v1::MarkSessionRequest& request,
                                                   const CallOptions& options = {}) = 0;
  virtual absl::StatusOr<v1::SessionPosition> Unmark(const v1::UnmarkSessionRequest& request,
                                                     const CallOptions& options = {}) = 0;
  virtual absl::StatusOr<v1::SessionPosition> Rewind(const v1::RewindSessionRequest& request,
                                                     const CallOptions& options = {}) = 0;
  virtual absl::StatusOr<v1::SessionPosition> Save(const v1::SaveSessionRequest& request,
                                                   const CallOptions& options = {}) = 0;
  virtual absl::Status Delete(const v1::DeleteSessionRequest& request,
                              const CallOptions& options = {}) = 0;

  // The session's snapshot.
  virtual std::unique_ptr<ExportStream> Export(const v1::ExportSessionRequest& request,
                                               const CallOptions& options = {}) = 0;
  // The same with a function for each chunk. DATA_LOSS when the server ends early without an error.
  absl::Status Export(const v1::ExportSessionRequest& request, const CallOptions& options,
                      const ChunkSink& sink);
  // The same of a stream that was not read yet, and that its owner may cancel meanwhile.
  static absl::Status Receive(ExportStream& stream, const ChunkSink& sink);
  // A session from a snapshot.
  virtual absl::StatusOr<v1::Session> Import(const v1::CreateSessionRequest& create,
                                             const ChunkSource& source,
                                             const CallOptions& options = {}) = 0;
};

}  // namespace tvq::client

#endif  // TVQ_CLIENT_CPP_SESSIONS_H_
