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

// The graceful stop: health says NOT_SERVING, requests finish, answers go out, sessions are stored.
// Where other servers share the sessions, these are stored first, while all goes on, and then the
// port closes. A second signal requests a stop of `now`, and ends the requests. If there is nowhere
// to store the sessions, logs at once that they will be lost. In the end logs the ids of those that
// were lost.
void Drain(const Draining& draining, const std::stop_token& now);

}  // namespace tvq

#endif  // TVQ_SERVER_STARTUP_DRAIN_H_
