// The gRPC server: services, health, reflection, limits.
#ifndef TVQ_SERVER_RPC_SERVICES_SERVER_H_
#define TVQ_SERVER_RPC_SERVICES_SERVER_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <stop_token>
#include <string>

#include "absl/status/statusor.h"
#include "server/engine/engine.h"
#include "server/rpc/access/tls.h"
#include "server/rpc/calls/call_gate.h"
#include "server/rpc/calls/call_recorder.h"
#include "server/rpc/calls/credentials.h"
#include "server/rpc/limits/connections/connection_guard.h"
#include "server/rpc/listen/listener.h"
#include "server/rpc/services/drain_order.h"
#include "server/rpc/services/model_service.h"
#include "server/rpc/wire/convert.h"
#include "server/sessions/session_store.h"

namespace tvq {

struct ServerOptions {
  std::string host = "127.0.0.1";
  int port = 50051;                              // 0: a free one
  int64_t max_message_bytes = 16 * 1024 * 1024;  // of a request
  int64_t max_connection_bytes = 0;              // of all calls in gRPC; 0: 32 such requests
  // Of our services, together; twice the calls of a connection if that is more. Each takes some 16
  // KiB, in gRPC and here.
  int64_t max_open_calls = int64_t{1} << 16;
  // Bytes of vectors that clients have asked for and not taken, and of other large answers. Vectors
  // take their room when they are requested: in one common quota, those that wait to be computed
  // would keep it from exports and transcripts of all clients of the same gateway.
  int64_t max_vector_bytes = int64_t{256} << 20;
  int64_t max_answer_bytes = int64_t{256} << 20;
  std::chrono::seconds keepalive_time{60};          // silence after which the client is pinged
  std::chrono::seconds keepalive_timeout{20};       // then it is taken for gone
  std::chrono::milliseconds stall_timeout{60'000};  // how long calls wait for their clients
  int max_descriptors = 1024;  // that the process may have open: files, connections
  int max_connections = ListenerOptions().max_connections;
  int call_threads = 0;  // 0: two where more than four cores may be used
  ConnectionLimits connections;
  RequestLimits limits;
  CallGateOptions gate;
  TlsOptions tls;
  BeginDrain drain;            // what AdminService does to drain; needed with keys
  CallRecorder::Log log_call;  // hears of every call that ends, in its thread; may be null
};

// Constructed by one thread. StopListening and Shutdown are one thread's; every other method may be
// called from any.
class Server {
 public:
  // Listens. UNAVAILABLE, naming the address, when it cannot; errors of ApiKeys::Read and
  // ReadTlsFiles. `engine` and `sessions` must outlive the server; without sessions, null, there is
  // no SessionService.
  static absl::StatusOr<std::unique_ptr<Server>> Start(Engine* engine, SessionStore* sessions,
                                                       ServerDescription description,
                                                       const ServerOptions& options);
  // As Shutdown without grace.
  ~Server();

  int port() const;

  CallCounts call_counts() const;
  // By their limits, or as descriptors were short, since the start.
  int64_t closed_connections() const;

  // Health says NOT_SERVING from now on. The engine refuses what comes, once it drains.
  void SetDraining();

  Credentials& credentials();

  // While the engine makes no progress, health says NOT_SERVING. It does at first.
  void SetProgressing(bool progressing);

  // For a server whose engine has drained: waits for the calls that are open, as those that move a
  // state or store a session, but not for clients to read what was written for them. Returns at
  // `until` at the latest, and when `stop` is requested. Calls that come later are not waited for.
  void FinishCalls(SteadyTime until, const std::stop_token& stop);

  // Closes the port and tells clients to go elsewhere, so that a proxy sends them to another
  // server; what is open goes on. Shutdown has to follow.
  void StopListening();

  // For a server that drains. Waits until `until` for open calls of Generate, Score and the like.
  // Then accepts nothing more, ends what still runs, health's Watch too, and returns when no call
  // is left. Resets the connections of clients that do not read the end.
  void Shutdown(SteadyTime until);

 private:
  class Impl;
  explicit Server(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace tvq

#endif  // TVQ_SERVER_RPC_SERVICES_SERVER_H_
