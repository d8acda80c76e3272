// What every sample must be (SamplingParams.form and choice), as a grammar.
#ifndef TVQ_SERVER_RPC_WIRE_FORM_H_
#define TVQ_SERVER_RPC_WIRE_FORM_H_

#include <memory>

#include "absl/status/statusor.h"
#include "server/engine/engine.h"
#include "tvq/v1/generation.pb.h"

namespace tvq {

// Whether something must be followed.
bool AsksForForm(const v1::SamplingParams& sampling);

// Null where anything may be written. Takes milliseconds, and for a model's first grammar up to a
// second. INVALID_ARGUMENT names the field and what is wrong with it; UNIMPLEMENTED if the
// model has no grammars.
absl::StatusOr<std::shared_ptr<const Grammar>> ToGrammar(const v1::SamplingParams& sampling,
                                                         const ServedModel& model);

}  // namespace tvq

#endif  // TVQ_SERVER_RPC_WIRE_FORM_H_
