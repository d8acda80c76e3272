// From SamplingParams of the wire to the engine's.
#ifndef TVQ_SERVER_RPC_WIRE_SAMPLING_H_
#define TVQ_SERVER_RPC_WIRE_SAMPLING_H_

#include <vector>

#include "absl/status/statusor.h"
#include "models/runtime/config/config.h"
#include "server/engine/request/request.h"
#include "tvq/v1/generation.pb.h"

namespace tvq {

// What generation_config.json may have defaults of.
std::vector<DefaultField> DefaultFields();

// What the model's generation_config.json says; other fields are unset.
v1::SamplingParams DefaultsMessage(const GenerationDefaults& defaults);

// What a request asks for, and beyond that the model's defaults. kValueInvalid for a number out of
// its range.
absl::StatusOr<SamplingParams> ToSampling(const v1::SamplingParams& message,
                                          const GenerationDefaults& defaults);

}  // namespace tvq

#endif  // TVQ_SERVER_RPC_WIRE_SAMPLING_H_
