// Both ends of a model: from ids to rows, and from rows to logits.
#ifndef TVQ_MODELS_RUNTIME_STACK_VOCABULARY_H_
#define TVQ_MODELS_RUNTIME_STACK_VOCABULARY_H_

#include <cstdint>
#include <span>

#include "absl/status/status.h"
#include "kernels/device/device.h"
#include "kernels/device/tensor.h"
#include "kernels/ops/linear.h"
#include "models/runtime/stack/row_norm.h"
#include "models/runtime/stack/stack_config.h"
#include "models/runtime/stack/weight_loader.h"
#include "models/runtime/stack/working_memory.h"

namespace tvq {

class Vocabulary {
 public:
  // The device must outlive it.
  Vocabulary(const StackConfig& config, Device& device)
      : config_(config),
        device_(device),
        norm_({.norm = config.norm,
               .width = config.d_model,
               .epsilon = config.norm_epsilon,
               .gain_offset = config.norm_gain_offset,
               .bias = config.tensors.norm_bias}) {}

  // LoadEmbedding is called before the layers load, LoadLogits after them, with the same loader.
  // Errors are in loader.status().
  void LoadEmbedding(WeightLoader& loader);
  void LoadLogits(WeightLoader& loader);
  void Reserve(int64_t rows, WorkingMemory& memory);

  // INVALID_ARGUMENT for an id outside the vocabulary.
  absl::Status CheckTokens(std::span<const int32_t> tokens) const;

  // Computes x [n, D] from tokens and positions [n], all on the device.
  absl::Status Embed(Vector<const int32_t> tokens, Vector<const int64_t> positions,
                     Matrix<float> x) const;
  // Applies the output norm, if there is one, to rows behind the last layer, at most as many as
  // Reserve was given. The result may be x itself, and is valid until the next call.
  absl::StatusOr<Matrix<float>> Norm(Matrix<float> x) const;
  // out [n, vocab] of rows x [n, D] behind the last layer.
  absl::Status Logits(Matrix<float> x, Matrix<float> out) const;

 private:
  const StackConfig config_;
  Device& device_;
  MatrixValues loaded_;      // the embedding, until logits are loaded
  Buffer embedding_;         // [vocab, D]
  Buffer embedding_scales_;  // [vocab], int8 only
  DType embedding_dtype_ = DType::kFloat32;
  float position_scale_ = 0;  // 0: no absolute positions
  RowNorm norm_;              // not loaded without output_norm
  LinearWeight logits_;       // [vocab, D]
  Buffer logits_bias_;        // [vocab], or empty
  float* normed_ = nullptr;
};

}  // namespace tvq

#endif  // TVQ_MODELS_RUNTIME_STACK_VOCABULARY_H_
