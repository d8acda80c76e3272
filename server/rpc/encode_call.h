#ifndef TVQ_SERVER_RPC_ENCODE_CALL_H_
#define TVQ_SERVER_RPC_ENCODE_CALL_H_

#include <grpcpp/server_context.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/server_callback.h>

#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "server/engine/request.h"
#include "server/rpc/call_context.h"
#include "server/rpc/call_scope.h"
#include "tvq/v1/generation.pb.h"

namespace tvq {

// One Encode call: a request whose output comes in one piece. Held by gRPC until its OnDone and by
// the engine until the sink's.
class EncodeCall : public grpc::ServerUnaryReactor,
                   public RequestSink,
                   public std::enable_shared_from_this<EncodeCall> {
 public:
  // gRPC keeps `out` until Finish.
  EncodeCall(const CallContext& context, grpc::CallbackServerContext* rpc, grpc::ByteBuffer* out);

  // Reads the request and submits it, here or on a worker. Once, before the reactor is returned.
  void Begin(const grpc::ByteBuffer& in);

  // gRPC's side.
  void OnCancel() override;
  void OnDone() override;

  // The engine's side.
  void OnPrompt(int64_t, std::vector<TokenEvent>) override {}
  void OnDelta(Delta) override {}
  void OnEncoded(std::vector<float> vectors) override { vectors_ = std::move(vectors); }
  void OnDone(const absl::Status& status, const Usage& usage) override;

 private:
  void Open(const grpc::ByteBuffer& bytes);
  absl::Status Submit(const v1::EncodeRequest& message);
  // Of a call that the engine never had.
  void Refuse(const absl::Status& status);
  void Answer(int64_t tokens);

  const CallContext& context_;
  grpc::CallbackServerContext* const rpc_;
  grpc::ByteBuffer* const out_;
  CallScope scope_;
  std::shared_ptr<EncodeCall> self_;  // gRPC's share; reset by its OnDone
  int64_t width_ = 0;                 // constant once submitted
  std::vector<float> vectors_;        // the loop's, then the worker's that answers

  absl::Mutex mutex_;
  RequestHandle handle_ ABSL_GUARDED_BY(mutex_) = 0;
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace tvq

#endif  // TVQ_SERVER_RPC_ENCODE_CALL_H_
