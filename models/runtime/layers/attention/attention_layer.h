// A layer of attention of any kind.
#ifndef TVQ_MODELS_RUNTIME_LAYERS_ATTENTION_ATTENTION_LAYER_H_
#define TVQ_MODELS_RUNTIME_LAYERS_ATTENTION_ATTENTION_LAYER_H_

#include <memory>
#include <string>
#include <utility>

#include "models/runtime/layers/attention/attention_core.h"
#include "models/runtime/layers/attention/projection.h"
#include "models/runtime/stack/layer.h"

namespace tvq {

class AttentionLayer : public Layer {
 public:
  // The device, which must be that of `core`, must outlive it.
  AttentionLayer(std::string prefix, const AttentionConfig& config, Device& device,
                 std::unique_ptr<AttentionCore> core)
      : Layer(std::move(prefix)),
        cached_numbers_(config.n_kv_head * (config.d_k + config.d_v)),
        projection_(config, device),
        core_(std::move(core)) {}

  void Load(WeightLoader& loader) override {
    projection_.Load(prefix(), loader);
    core_->Load(prefix(), loader);
  }
  void Reserve(int64_t rows, WorkingMemory& memory) override {
    projection_.Reserve(rows, memory);
    core_->Reserve(rows, memory);
  }
  absl::Status CheckDevice() override { return core_->CheckDevice(); }
  const LayerParts& parts() const override { return core_->parts(); }
  void Place(const StateLayout::Layer& where) override { core_->Place(where); }
  size_t view_bytes() const override { return core_->view_bytes(); }
  void View(const PartMemory& memory, std::byte* view) const override { core_->View(memory, view); }

  absl::Status Prefill(const LayerState& state, const LayerRows& rows) override {
    absl::Status s = Project(rows);
    if (s.ok()) s = core_->Prefill(state, Values(rows));
    return s.ok() ? projection_.Output(rows) : s;
  }
  absl::Status Decode(const RowStates& states, const LayerRows& rows) override {
    absl::Status s = Project(rows);
    if (s.ok()) s = core_->Decode(states, Values(rows));
    return s.ok() ? projection_.Output(rows) : s;
  }

  LayerRounding rounding() const override {
    LayerRounding rounding = core_->rounding();
    rounding.products += 2;
    return rounding;
  }
  int64_t cached_numbers() const override { return cached_numbers_; }
  LayerUndo* undo() override { return core_->undo(); }

 private:
  absl::Status Project(const LayerRows& rows) {
    QkvgProjectionArgs args;
    core_->Project(rows.x.dim(0), args);
    return projection_.Project(rows, args);
  }
  AttentionRows Values(const LayerRows& rows) const {
    const int64_t n = rows.x.dim(0);
    return {projection_.v(n), projection_.out(n)};
  }

  const int64_t cached_numbers_;
  Projection projection_;
  const std::unique_ptr<AttentionCore> core_;
};

}  // namespace tvq

#endif  // TVQ_MODELS_RUNTIME_LAYERS_ATTENTION_ATTENTION_LAYER_H_
