// What the calls of a server share.
#ifndef TVQ_SERVER_RPC_CALLS_CALL_CONTEXT_H_
#define TVQ_SERVER_RPC_CALLS_CALL_CONTEXT_H_

#include <grpcpp/server_context.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "server/engine/engine.h"
#include "server/rpc/calls/call_gate.h"
#include "server/rpc/calls/call_recorder.h"
#include "server/rpc/limits/byte_quota.h"
#include "server/rpc/transport/open_calls.h"
#include "server/rpc/transport/task_pool.h"
#include "server/rpc/wire/convert.h"
#include "server/sessions/session_store.h"

namespace tvq {

// A request of more bytes is read by a thread of `workers`, for its own would serve no other call
// while it tokenizes. SentencePiece takes 0.9 ms for so much of a novel, 19
// ms for 64 KiB (models/zoo/novels).
inline constexpr size_t kInlineRequestBytes = 4 * 1024;
// One of the `workers` takes only tasks of at most so many bytes: no long one holds them up.
inline constexpr size_t kShortWorkBytes = 64 * 1024;

// The least that a task of the session pool counts for, beside its request.
inline constexpr size_t kSessionTaskBytes = 16 * 1024;

// Of an answer that is not counted: about what any call takes.
inline constexpr int64_t kUncountedBytes = int64_t{16} << 10;

// What a call on a session is answered by a server that keeps none.
absl::Status NoSessions();

// Outlives every call. Constant after construction.
struct CallContext {
  Engine* engine = nullptr;
  SessionStore* sessions = nullptr;  // null: this server keeps none
  CallGate* gate = nullptr;
  CallRecorder* recorder = nullptr;
  RequestLimits limits;
  TaskPool* workers = nullptr;  // may take long
  // Its tasks may wait for disk or network, never for a client. Tasks that only a bounded number of
  // calls schedule are always taken; a task that begins a call needs room.
  TaskPool* session_tasks = nullptr;
  ByteQuota* calls = nullptr;                 // that are open
  ByteQuota* uploads = nullptr;               // of snapshots that clients send
  ByteQuota* vectors = nullptr;               // of Encode, that clients have not taken
  ByteQuota* answers = nullptr;               // all others that clients have not taken
  std::chrono::milliseconds stall_timeout{};  // how long calls wait for their clients
  OpenCalls* open_calls = nullptr;
  const std::atomic<bool>* draining = nullptr;  // the server stops
};

// UNAVAILABLE when the server stops: what is made now might not outlive it. Requests are refused by
// the engine.
absl::Status CheckNotDraining(const CallContext& context);

// The client's x-request-id, if it is 1 to 128 printable characters, else a random one.
std::string RequestId(const grpc::ServerContextBase& context);

}  // namespace tvq

#endif  // TVQ_SERVER_RPC_CALLS_CALL_CONTEXT_H_
