// The fields that say how tokens are chosen, which completions and chat have in common, and others
// that several bodies have.
#ifndef TVQ_CLIENT_GATEWAY_BODIES_SAMPLING_H_
#define TVQ_CLIENT_GATEWAY_BODIES_SAMPLING_H_

#include <cstdint>
#include <string_view>

#include "client/gateway/bodies/json_body.h"
#include "tvq/v1/generation.pb.h"

namespace tvq::gateway {

// Reads all but max_tokens, logprobs and echo, which differ. Ranges are the server's to check.
void ReadSampling(Fields& fields, v1::SamplingParams* sampling);

// How many answers it asks for, within what the server allows: it refuses more, and less than one.
int32_t SampleCount(const v1::SamplingParams& sampling);

// session_id, expected_version, durability and commit_on_cancel of the body, and the header
// Idempotency-Key. Nothing without session_id.
void ReadSession(Fields& fields, std::string_view idempotency_key, v1::GenerateRequest* request);

// "memory" or "disk".
v1::Durability ReadDurability(Fields& fields);

// add_special_tokens of any message that has the field; left out, it stays unset.
template <typename Message>
void ReadSpecialTokens(Fields& fields, Message* message) {
  if (const auto add = fields.Bool("add_special_tokens")) message->set_add_special_tokens(*add);
}

struct StreamOptions {
  bool stream = false;
  bool include_usage = false;
};
StreamOptions ReadStream(Fields& fields);

}  // namespace tvq::gateway

#endif  // TVQ_CLIENT_GATEWAY_BODIES_SAMPLING_H_
