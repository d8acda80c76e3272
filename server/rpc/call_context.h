// What the calls of a server share.
#ifndef TVQ_SERVER_RPC_CALL_CONTEXT_H_
#define TVQ_SERVER_RPC_CALL_CONTEXT_H_

#include <grpcpp/server_context.h>

#include <cstddef>
#include <string>

#include "absl/status/status.h"
#include "server/engine/engine.h"
#include "server/rpc/call_gate.h"
#include "server/rpc/call_recorder.h"
#include "server/rpc/convert.h"
#include "server/rpc/open_calls.h"
#include "server/rpc/task_pool.h"

namespace tvq {

// A request of more bytes is read by a thread of `workers`: tokenizing a megabyte takes tens of
// milliseconds, in which a thread of gRPC would serve nobody else.
inline constexpr size_t kInlineRequestBytes = 64 * 1024;

// What a large request is answered when the workers' queue has no room for it.
absl::Status WorkersBusy();

// Outlives every call. Constant after construction.
struct CallContext {
  Engine* engine = nullptr;
  CallGate* gate = nullptr;
  CallRecorder* recorder = nullptr;
  RequestLimits limits;
  TaskPool* writers = nullptr;  // short tasks only: streams wait for them
  TaskPool* workers = nullptr;  // may take long
  OpenCalls* open_calls = nullptr;
};

// The client's x-request-id, if it is 1 to 128 printable characters, else a random one.
std::string RequestId(const grpc::CallbackServerContext& context);

}  // namespace tvq

#endif  // TVQ_SERVER_RPC_CALL_CONTEXT_H_
