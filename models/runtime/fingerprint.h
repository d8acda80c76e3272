// A hash that tells one model from another.
#ifndef TVQ_MODELS_RUNTIME_FINGERPRINT_H_
#define TVQ_MODELS_RUNTIME_FINGERPRINT_H_

#include <string>
#include <string_view>

#include "models/runtime/config/config.h"
#include "models/runtime/weights.h"

namespace tvq {

// 32 lowercase hexadecimal digits: XXH3-128 over the canonical config, the weights' digest and the
// bytes of the tokenizer's file ("" where there is none). It protects against accidents, not
// against two models that were made to collide on purpose.
std::string Fingerprint(const Config& config, const WeightSource& weights,
                        std::string_view tokenizer_file);

}  // namespace tvq

#endif  // TVQ_MODELS_RUNTIME_FINGERPRINT_H_
