// What the stack of layers knows of attention that looks both ways: a layer's keys are all
// collected before its first query attends.
#ifndef TVQ_MODELS_RUNTIME_ARCH_TRANSFORMER_BIDIRECTIONAL_H_
#define TVQ_MODELS_RUNTIME_ARCH_TRANSFORMER_BIDIRECTIONAL_H_

#include <cstdint>

#include "absl/status/status.h"
#include "models/runtime/arch/transformer/attention.h"
#include "models/runtime/arch/transformer/encoding_state.h"

namespace tvq::transformer {

class Bidirectional {
 public:
  virtual ~Bidirectional() = default;

  // What an EncodingState has for what is collected of a text in a layer.
  virtual int64_t collected_bytes() const = 0;

  // Of the rows that were projected last: adds their keys and values to what `state` holds of the
  // layer, nothing before its first row; attends to all that it holds then.
  virtual absl::Status Collect(int64_t layer, const EncodingState& state,
                               const AttentionRows& rows) = 0;
  virtual absl::Status Attend(int64_t layer, const EncodingState& state,
                              const AttentionRows& rows) = 0;
};

}  // namespace tvq::transformer

#endif  // TVQ_MODELS_RUNTIME_ARCH_TRANSFORMER_BIDIRECTIONAL_H_
