#ifndef TVQ_SERVER_RPC_SERVICES_GENERATION_SERVICE_H_
#define TVQ_SERVER_RPC_SERVICES_GENERATION_SERVICE_H_

#include <grpcpp/grpcpp.h>

#include "server/rpc/calls/call_context.h"
#include "tvq/v1/generation.grpc.pb.h"

namespace tvq {

// The methods with their raw bytes, see wire.h. Those that stream one message after the other come
// over the queues of writers.
using RawGenerationService =
    v1::GenerationService::WithRawMethod_Generate<v1::GenerationService::WithRawMethod_Score<
        v1::GenerationService::WithRawCallbackMethod_GenerateWithState<
            v1::GenerationService::WithRawCallbackMethod_Encode<
                v1::GenerationService::WithRawCallbackMethod_Tokenize<
                    v1::GenerationService::WithRawCallbackMethod_Detokenize<
                        v1::GenerationService::Service>>>>>>;

class GenerationService final : public RawGenerationService {
 public:
  // `context` must outlive the service and its calls.
  explicit GenerationService(const CallContext& context) : context_(context) {}

  // Takes calls of Generate and Score. When the server has started.
  void Take(StreamWriters* writers);

  grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* GenerateWithState(
      grpc::CallbackServerContext* rpc) override;
  grpc::ServerUnaryReactor* Encode(grpc::CallbackServerContext* rpc, const grpc::ByteBuffer* in,
                                   grpc::ByteBuffer* out) override;
  grpc::ServerUnaryReactor* Tokenize(grpc::CallbackServerContext* rpc, const grpc::ByteBuffer* in,
                                     grpc::ByteBuffer* out) override;
  grpc::ServerUnaryReactor* Detokenize(grpc::CallbackServerContext* rpc, const grpc::ByteBuffer* in,
                                       grpc::ByteBuffer* out) override;

 private:
  const CallContext& context_;
};

}  // namespace tvq

#endif  // TVQ_SERVER_RPC_SERVICES_GENERATION_SERVICE_H_
