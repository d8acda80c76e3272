#ifndef TVQ_SERVER_DRAIN_HAND_OVER_H_
#define TVQ_SERVER_DRAIN_HAND_OVER_H_

#include <cstdint>
#include <stop_token>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/rpc/access/tls.h"
#include "server/sessions/session_store.h"

namespace tvq {

// The server that takes the sessions over.
struct PeerOptions {
  std::string address;  // HOST:PORT
  std::string key;      // with its admin permission
  TlsOptions tls;       // enabled: our certificate, and whose certificates we believe
};

// FAILED_PRECONDITION if the key would travel in plain text: without TLS, to another machine.
absl::Status CheckPeer(const PeerOptions& peer);

struct HandOverResult {
  int64_t taken = 0;
  int64_t left = 0;  // not taken, and still here
};

// Sends the sessions that the peer cannot find by itself, with their marks, and forgets those that
// it has taken; one that was stored here is forgotten only if the peer has stored it, too. What the
// peer has no room for at the moment is sent again. Ends early at `until`, when `stop` is
// requested, also in the midst of a session, and when the peer takes nothing at all. Logs each
// session that is left. Errors of CheckPeer and ReadTlsFiles. No call may use a session meanwhile.
absl::StatusOr<HandOverResult> HandOver(SessionStore& store, const PeerOptions& peer,
                                        SteadyTime until, const std::stop_token& stop);

}  // namespace tvq

#endif  // TVQ_SERVER_DRAIN_HAND_OVER_H_
