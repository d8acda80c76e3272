// From the engine's outputs and models to the wire's messages.
#ifndef TVQ_SERVER_RPC_WIRE_TO_PROTO_H_
#define TVQ_SERVER_RPC_WIRE_TO_PROTO_H_

#include "server/engine/engine.h"
#include "server/engine/request/request.h"
#include "server/rpc/wire/convert.h"
#include "tvq/v1/generation.pb.h"
#include "tvq/v1/model.pb.h"

namespace tvq {

// `with_logprobs`: the request asked for them.
void ToProto(const Delta& delta, const Tokenizer& tokenizer, bool with_logprobs,
             v1::SampleDelta* message);
void ToProto(const TokenEvent& event, const Tokenizer& tokenizer, v1::TokenLogprobs* message);
void ToProto(const Usage& usage, v1::Usage* message);
void ToProto(const ServedModel& model, const ModelCapacity& capacity, const RequestLimits& limits,
             v1::Model* message);

}  // namespace tvq

#endif  // TVQ_SERVER_RPC_WIRE_TO_PROTO_H_
