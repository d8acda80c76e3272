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
  // Ignored by families that have no choice; UNIMPLEMENTED on devices that cannot do it.
  StateReads reads;
  // The most rows of drafts in a call of Decode (Drafts::rows): memory is taken for so many.
  int64_t draft_rows = 0;
  // Longest context in tokens, where it is shorter than config.json says. 0: as config.json says,
  // or kDefaultMaxModelLen if config.json says nothing and states grow.
  int64_t max_model_len = 0;
  std::vector<DefaultField> default_fields;  // that LoadModel reads of generation_config.json
  GenerationDefaults generation;             // what it found there
  std::shared_ptr<const ConversationWriter> conversations;  // the same
  // Of config, weights and tokenizer file. LoadModel computes it. If it is empty, BuildModel
  // computes it without a tokenizer file.
  std::string fingerprint;
  std::string left_out;  // see ModelInfo; LoadModel sets it
  // Called while weights load, with the number of pieces that are loaded and of all pieces. Pieces
  // differ in size: the embedding, each layer (a standard block may have two), and the logits. May
  // be empty.
  std::function<void(int64_t done, int64_t total)> progress;
};

// Float32 for float32 weights, else bfloat16.
inline DType DefaultStateDType(DType dtype) {
  return dtype == DType::kFloat32 ? dtype : DType::kBFloat16;
}

// The dtype of what states keep.
inline DType StateDType(const LoadOptions& options) {
  return options.state_dtype.value_or(DefaultStateDType(options.dtype));
}

}  // namespace tvq

#endif  // TVQ_MODELS_RUNTIME_LOAD_OPTIONS_H_
