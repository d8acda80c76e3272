#ifndef TVQ_SERVER_RPC_HAND_OVER_H_
#define TVQ_SERVER_RPC_HAND_OVER_H_

#include <atomic>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/rpc/tls.h"
#include "server/sessions/session_store.h"

namespace tvq {

// The server that takes the sessions over.
struct PeerOptions {
  std::string address;  // HOST:PORT
  std::string key;      // with its admin permission
  TlsOptions tls;       // enabled: our certificate, and whose certificates we believe
};

struct HandOverResult {
  int64_t taken = 0;
  int64_t left = 0;  // not taken, and still here
};

// Sends every session to the peer and forgets those that it has taken; one that was stored here is
// forgotten only if the peer has stored it, too. Marks stay behind. Ends early at `until`, when
// `stop` becomes true, and when the peer takes nothing at all. Logs each session that is left.
// Errors of ReadTlsFiles. No call may use a session meanwhile.
absl::StatusOr<HandOverResult> HandOver(SessionStore& store, const PeerOptions& peer,
                                        absl::Time until, const std::atomic<bool>& stop);

}  // namespace tvq

#endif  // TVQ_SERVER_RPC_HAND_OVER_H_
