// What all models on a device share: the embedding and the logits, weights, working memory and
// sampling. What lies between the two ends is up to the derived class.
#ifndef TVQ_MODELS_RUNTIME_STACK_DEVICE_MODEL_H_
#define TVQ_MODELS_RUNTIME_STACK_DEVICE_MODEL_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "models/runtime/load_options.h"
#include "models/runtime/model.h"
#include "models/runtime/stack/layer.h"
#include "models/runtime/stack/row_inputs.h"
#include "models/runtime/stack/stack_config.h"
#include "models/runtime/stack/vocabulary.h"
#include "models/runtime/stack/weight_loader.h"

namespace tvq {

class DeviceModel : public Model {
 public:
  const ModelInfo& info() const override { return info_; }
  const Tokenizer& tokenizer() const override { return *tokenizer_; }
  absl::Status Health() const override { return device_->Health(); }
  int64_t WorkspaceBytes(int64_t) const override {
    return static_cast<int64_t>(memory_.bytes()) + inputs_.bytes();
  }
  std::optional<int64_t> FreeDeviceMemory() const override { return device_->FreeMemory(); }
  absl::Status ReserveStates(int64_t bytes) override {
    return device_->Reserve(static_cast<size_t>(bytes));
  }
  absl::StatusOr<Logits> NewLogits(int64_t rows) override;
  absl::Status ReadLogits(const Logits& logits, int64_t row, std::span<float> out) override;
  absl::Status WriteLogits(std::span<const float> values, Logits* logits, int64_t row) override;
  absl::Status Sample(const Logits& logits, std::span<const SampleRow> rows, int64_t max_top,
                      std::span<TokenLogprob> chosen, std::span<TokenLogprob> top,
                      std::span<absl::Status> row_status) override;

 protected:
  DeviceModel(const StackConfig& config, std::unique_ptr<Tokenizer> tokenizer,
              const LoadOptions& options);

  // Reads, checks (shape, finite values, int8 in range) and packs the weights of the embedding, the
  // layers and the logits, in this order. Errors name the tensor.
  template <typename Layers>
  absl::Status Load(WeightSource& source, const LoadOptions& options, const Layers& layers);
  // Takes the working memory that both ends and the layers ask for, and what `add` asks for. Also
  // takes the memory of RowInputs, with `view_bytes` of each layer.
  template <typename Layers, typename Add>
  absl::Status Reserve(const Layers& layers, std::span<const size_t> view_bytes, const Add& add);

  const StackConfig config_;
  const std::shared_ptr<Device> device_;
  const std::unique_ptr<Tokenizer> tokenizer_;
  ModelInfo info_;
  Vocabulary vocabulary_;
  RowInputs inputs_;

 private:
  Buffer memory_;
};

template <typename Layers>
absl::Status DeviceModel::Load(WeightSource& source, const LoadOptions& options,
                               const Layers& layers) {
  WeightLoader loader(source, options);
  int64_t done = 0;
  const auto loaded = [&] {
    if (options.progress && loader.status().ok()) options.progress(++done, std::ssize(layers) + 2);
  };
  vocabulary_.LoadEmbedding(loader);
  loaded();
  for (const auto& layer : layers) {
    if (!loader.status().ok()) return loader.status();
    layer->Load(loader);
    loaded();
  }
  vocabulary_.LoadLogits(loader);
  loaded();
  info_.parameters = loader.parameters();
  info_.weight_bytes = loader.bytes();
  info_.weight_rounding = loader.rounding();
  return loader.status();
}

template <typename Layers, typename Add>
absl::Status DeviceModel::Reserve(const Layers& layers, std::span<const size_t> view_bytes,
                                  const Add& add) {
  WorkingMemory memory;
  add(memory);
  vocabulary_.Reserve(config_.rows(), memory);
  for (const auto& layer : layers) {
    memory.NextLayer();
    layer->Reserve(config_.rows(), memory);
  }
  absl::StatusOr<Buffer> taken = memory.Allocate(*device_);
  if (!taken.ok()) return taken.status();
  memory_ = *std::move(taken);
  absl::StatusOr<RowInputs> inputs = RowInputs::Create(*device_, config_.rows(), view_bytes);
  if (!inputs.ok()) return inputs.status();
  inputs_ = *std::move(inputs);
  return absl::OkStatus();
}

}  // namespace tvq

#endif  // TVQ_MODELS_RUNTIME_STACK_DEVICE_MODEL_H_
