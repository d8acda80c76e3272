#ifndef TVQ_SERVER_RPC_CALLS_ENGINE_CALL_H_
#define TVQ_SERVER_RPC_CALLS_ENGINE_CALL_H_

#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "base/mutex.h"
#include "server/engine/engine.h"
#include "server/engine/request/request.h"
#include "server/rpc/calls/call.h"

namespace tvq {

// A call that has the engine compute one request: the rpc's listener on one side, the engine's sink
// on the other. Held by gRPC until its OnDone and by the engine until the sink's OnEnd, whichever
// is later.
class EngineCall : public Call, public RequestSink {
 public:
  using Call::Call;

  void OnCancel() override { CancelRequest(); }

  void OnPrompt(int64_t, std::vector<TokenEvent>) override {}
  void OnDelta(Delta) override {}

 protected:
  // Hands the request to the engine with the caller's id and owner, or without keys the network
  // that it calls from, the call's deadline and, where it generates or appends, the owner's cached
  // prefixes. Errors of Engine::Submit: there will be no output. Once.
  absl::Status Submit(Request request);

  // Any thread, before Submit too.
  void CancelRequest();

 private:
  Mutex mutex_;
  RequestHandle handle_ ABSL_GUARDED_BY(mutex_) = 0;
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace tvq

#endif  // TVQ_SERVER_RPC_CALLS_ENGINE_CALL_H_
