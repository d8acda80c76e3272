// Softmax attention over every key: Transformer-VQ's without its codebook.
#ifndef TVQ_MODELS_RUNTIME_LAYERS_ATTENTION_SOFTMAX_CORE_H_
#define TVQ_MODELS_RUNTIME_LAYERS_ATTENTION_SOFTMAX_CORE_H_

#include <string>

#include "models/runtime/layers/attention/attention_config.h"
#include "models/runtime/layers/attention/attention_core.h"
#include "models/runtime/layers/attention/cache_parts.h"
#include "models/runtime/layers/attention/relative_queries.h"

namespace tvq {

class SoftmaxCore : public AttentionCore {
 public:
  // The device must outlive it.
  SoftmaxCore(const AttentionConfig& config, Device& device, DType state_dtype, int64_t draft_rows,
              RelativeTables tables);

  void Load(const std::string& prefix, WeightLoader& loader) override {
    queries_.Load(prefix, loader);
  }
  void Reserve(int64_t rows, WorkingMemory& memory) override { queries_.Reserve(rows, memory); }
  const LayerParts& parts() const override { return parts_; }
  void Place(const StateLayout::Layer& where) override { page_first_ = where.page_first; }
  size_t view_bytes() const override { return sizeof(KeyValuePages); }
  void View(const PartMemory& memory, std::byte* view) const override;
  void Project(int64_t rows, QkvgProjectionArgs& args) const override {
    queries_.Project(rows, args);
  }
  absl::Status Prefill(const LayerState& state, const AttentionRows& rows) override;
  absl::Status Decode(const RowStates& states, const AttentionRows& rows) override;
  LayerRounding rounding() const override { return {.kept = 2}; }
  LayerUndo* undo() override { return undo_.rows() > 0 ? &undo_ : nullptr; }

 private:
  Device& device_;
  const CacheParts parts_;
  CacheUndo undo_;
  int64_t page_first_ = 0;  // bytes from a page's start to the layer's keys
  RelativeQueries queries_;
};

}  // namespace tvq

#endif  // TVQ_MODELS_RUNTIME_LAYERS_ATTENTION_SOFTMAX_CORE_H_
