#ifndef TVQ_SERVER_STARTUP_DRAIN_H_
#define TVQ_SERVER_STARTUP_DRAIN_H_

#include <atomic>

#include "server/engine/engine.h"
#include "server/rpc/hand_over.h"
#include "server/rpc/server.h"
#include "server/sessions/session_store.h"

namespace tvq {

// What stops.
struct Draining {
  Engine& engine;
  SessionStore& sessions;
  Server& server;
  double seconds = 0;  // for which requests may go on, and then sessions may be saved
  PeerOptions peer;    // without an address: nobody takes the sessions over
};

// The graceful stop: health turns, requests finish, answers go out, sessions are handed over or
// stored. `now` becomes true when somebody has lost patience, who then also ends the requests. Logs
// what was lost, sessions by their ids.
void Drain(const Draining& draining, const std::atomic<bool>& now);

}  // namespace tvq

#endif  // TVQ_SERVER_STARTUP_DRAIN_H_
