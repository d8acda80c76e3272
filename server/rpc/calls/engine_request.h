#ifndef TVQ_SERVER_RPC_CALLS_ENGINE_REQUEST_H_
#define TVQ_SERVER_RPC_CALLS_ENGINE_REQUEST_H_

#include <grpcpp/server_context.h>

#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "server/engine/engine.h"
#include "server/rpc/access/caller.h"
#include "server/sessions/session_store.h"

namespace tvq {

// The one request of a call, as the engine has it. Any thread may cancel, before Submit too.
class EngineRequest {
 public:
  explicit EngineRequest(Engine* engine) : engine_(engine) {}

  // Hands the request to the engine with the caller's id and owner, or without keys the network
  // that it calls from, the call's deadline, and `sink`, and with the owner's cached prefixes
  // unless `prefixes` is null. Errors of Engine::Submit: there will be no output, and the trailer
  // that belongs to the status is set. Once.
  absl::Status Submit(Request request, const Caller& caller, std::shared_ptr<RequestSink> sink,
                      grpc::ServerContextBase* rpc, SessionStore* prefixes = nullptr);

  void Cancel();

 private:
  Engine* const engine_;
  absl::Mutex mutex_;
  RequestHandle handle_ ABSL_GUARDED_BY(mutex_) = 0;
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace tvq

#endif  // TVQ_SERVER_RPC_CALLS_ENGINE_REQUEST_H_
