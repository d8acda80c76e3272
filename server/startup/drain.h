#ifndef TVQ_SERVER_STARTUP_DRAIN_H_
#define TVQ_SERVER_STARTUP_DRAIN_H_

#include <chrono>
#include <stop_token>

#include "absl/status/status.h"
#include "server/drain/hand_over.h"
#include "server/engine/engine.h"
#include "server/rpc/services/drain_order.h"
#include "server/rpc/services/server.h"
#include "server/sessions/session_store.h"
#include "server/startup/flags.h"

namespace tvq {

// What stops.
struct Draining {
  Engine& engine;
  SessionStore& sessions;
  Server& server;
  std::chrono::nanoseconds timeout;  // of the requests, and then of the sessions
  PeerOptions peer;                  // without an address: nobody takes the sessions over
  bool stores = false;               // there is somewhere to store them
};

// Who takes the sessions over as the flags say; without an address: nobody.
PeerOptions PeerOf(const Flags& flags);

// INVALID_ARGUMENT for an order to hand the sessions to another server than the flags name: it
// would get the operator's key.
absl::Status CheckOrder(const DrainOrder& order, const Flags& flags);

// The graceful stop: health turns, requests finish, answers go out, sessions are handed over or
// stored. Where other servers share the sessions, these are stored first, while all goes on, and
// the port closes. Of `now` a stop is requested by somebody who has lost patience, and who then
// also ends the requests. Logs what was lost, sessions by their ids.
void Drain(const Draining& draining, const std::stop_token& now);

}  // namespace tvq

#endif  // TVQ_SERVER_STARTUP_DRAIN_H_
