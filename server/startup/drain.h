#ifndef TVQ_SERVER_STARTUP_DRAIN_H_
#define TVQ_SERVER_STARTUP_DRAIN_H_

#include <chrono>
#include <stop_token>

#include "server/engine/engine.h"
#include "server/rpc/services/server.h"
#include "server/sessions/session_store.h"

namespace tvq {

// What stops.
struct Draining {
  Engine& engine;
  SessionStore& sessions;
  Server& server;
  std::chrono::nanoseconds timeout;  // of the requests, and then of the sessions
  bool stores = false;               // there is somewhere to store them
};

// The graceful stop: health turns, requests finish, answers go out, sessions are stored. Where
// other servers share the sessions, these are stored first, while all goes on, and the port closes.
// Of `now` a stop is requested by somebody who has lost patience, and who then also ends the
// requests. Logs at once that sessions will be lost if there is nowhere to store them, and in the
// end which were, by their ids.
void Drain(const Draining& draining, const std::stop_token& now);

}  // namespace tvq

#endif  // TVQ_SERVER_STARTUP_DRAIN_H_
