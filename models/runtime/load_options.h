// How a model is loaded.
#ifndef TVQ_MODELS_RUNTIME_LOAD_OPTIONS_H_
#define TVQ_MODELS_RUNTIME_LOAD_OPTIONS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kernels/device/device.h"
#include "models/runtime/model.h"

namespace tvq {

inline constexpr int64_t kDefaultMaxModelLen = 32768;

struct LoadOptions {
  std::shared_ptr<Device> device;
  DType dtype = DType::kFloat32;
  std::optional<DType> state_dtype;  // of recent values; unset: DefaultStateDType(dtype)
  // Without effect on families that have no choice; UNIMPLEMENTED on devices that have none.
  StateReads reads;
  // Model::DraftRows, at most: memory is taken for so many.
  int64_t draft_rows = 0;
  // Longest context in tokens, where it is shorter than config.json says; 0: as that says, and
  // kDefaultMaxModelLen where it says nothing and states grow.
  int64_t max_model_len = 0;
  std::vector<DefaultField> default_fields;  // that LoadModel reads of generation_config.json
  GenerationDefaults generation;             // what it found there
  std::shared_ptr<const ConversationWriter> conversations;  // the same
  // Of config, weights and tokenizer file. LoadModel computes it; BuildModel where it is empty,
  // with no tokenizer file.
  std::string fingerprint;
  std::string left_out;  // ModelInfo's; LoadModel finds it
  // Called while weights load, with pieces done and pieces in all, of whatever sizes: both ends of
  // the vocabulary, and every layer, of which a standard block may have two. May be empty.
  std::function<void(int64_t done, int64_t total)> progress;
};

// Recent values have the weights' dtype, and bfloat16 beside int8 and int4 weights.
inline DType DefaultStateDType(DType dtype) {
  return dtype == DType::kFloat32 ? dtype : DType::kBFloat16;
}

// The dtype of what states keep.
inline DType StateDType(const LoadOptions& options) {
  return options.state_dtype.value_or(DefaultStateDType(options.dtype));
}

}  // namespace tvq

#endif  // TVQ_MODELS_RUNTIME_LOAD_OPTIONS_H_
