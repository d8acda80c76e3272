// Both ends of a model: from ids to rows, and from rows to logits.
#ifndef TVQ_MODELS_RUNTIME_STACK_VOCABULARY_H_
#define TVQ_MODELS_RUNTIME_STACK_VOCABULARY_H_

#include <cstdint>
#include <span>

#include "absl/status/status.h"
#include "kernels/device/device.h"
#include "kernels/device/tensor.h"
#include "kernels/ops/linear.h"
#include "models/runtime/stack/stack_config.h"
#include "models/runtime/stack/weight_loader.h"
#include "models/runtime/stack/working_memory.h"

namespace tvq {

class Vocabulary {
 public:
  // The device must outlive it.
  Vocabulary(const StackConfig& config, Device& device) : config_(config), device_(device) {}

  // Ahead of the layers and behind them, by the same loader. What is wrong is in it.
  void LoadEmbedding(WeightLoader& loader);
  void LoadLogits(WeightLoader& loader);
  void Reserve(int64_t rows, WorkingMemory& memory);

  // INVALID_ARGUMENT for an id that is none.
  absl::Status CheckTokens(std::span<const int32_t> tokens) const;

  // Tokens and positions [n] of the device to x [n, D].
  absl::Status Embed(Vector<const int32_t> tokens, Vector<const int64_t> positions,
                     Matrix<float> x) const;
  // Rows behind the last layer, up to Reserve's, through the norm behind it, where there is one;
  // the result may be x itself, and is valid until the next call.
  absl::StatusOr<Matrix<float>> Norm(Matrix<float> x) const;
  // out [n, vocab] of rows x [n, D] behind the last layer.
  absl::Status Logits(Matrix<float> x, Matrix<float> out) const;

 private:
  const StackConfig config_;
  Device& device_;
  MatrixValues loaded_;      // the embedding, until logits are loaded
  Buffer embedding_;         // [vocab, D]
  Buffer embedding_scales_;  // [vocab], int8 alone
  DType embedding_dtype_ = DType::kFloat32;
  float position_scale_ = 0;      // 0 without absolute positions
  Buffer norm_gain_, norm_bias_;  // [D], empty without output_norm or without biases
  LinearWeight logits_;           // [vocab, D]
  Buffer logits_bias_;            // [vocab]
  float* normed_ = nullptr;
};

}  // namespace tvq

#endif  // TVQ_MODELS_RUNTIME_STACK_VOCABULARY_H_
