#ifndef TVQ_CLIENT_LOADTEST_MAKE_PROMPTS_H_
#define TVQ_CLIENT_LOADTEST_MAKE_PROMPTS_H_

#include <memory>

#include "absl/status/statusor.h"
#include "client/loadtest/driver/target.h"
#include "client/loadtest/options.h"
#include "client/loadtest/workload/prompts.h"

namespace tvq::loadtest {

// The prompts that the options ask for. INVALID_ARGUMENT, naming the flag, for a file that cannot
// be read or holds too little, and for lengths that the model does not take.
absl::StatusOr<std::shared_ptr<const Prompts>> MakePrompts(const Options& options,
                                                           const ModelInfo& model, Target& target);

}  // namespace tvq::loadtest

#endif  // TVQ_CLIENT_LOADTEST_MAKE_PROMPTS_H_
