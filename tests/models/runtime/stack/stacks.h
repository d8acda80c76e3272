// Models of all kinds of layers that sessions must not depend on. A family that is added is added
// to the list.
#ifndef TVQ_TESTS_MODELS_RUNTIME_STACK_STACKS_H_
#define TVQ_TESTS_MODELS_RUNTIME_STACK_STACKS_H_

#include <memory>

#include "tests/models/runtime/families/ema/ema.h"
#include "tests/models/runtime/families/recurrent/recurrent_models.h"
#include "tests/models/runtime/stack/mixed_model.h"

namespace tvq {

struct AnyStack {
  const char* name;
  // Of a vocabulary of FedModel::kVocab.
  std::unique_ptr<Model> (*make)(const std::shared_ptr<Device>& device);
};

inline constexpr AnyStack kStacks[] = {
    {"mixed", [](const auto& device) { return NewMixedModel(device, {}); }},
    {"ema", NewEmaModel},
    {"rwkv7", NewRecurrentModel<kRwkv7>},
    {"mamba2", NewRecurrentModel<kMamba2>},
    {"qwen3_5", NewRecurrentModel<kQwen35>},
};

}  // namespace tvq

#endif  // TVQ_TESTS_MODELS_RUNTIME_STACK_STACKS_H_
