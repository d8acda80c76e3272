// The projections around the attention of a converted block. The layer itself projects the rows to
// queries, keys and values of all groups of heads. It keeps nothing of a session and adds nothing
// to the rows: the layers of the groups come behind it, and each calls Output to add its result.
#ifndef TVQ_MODELS_RUNTIME_LAYERS_ATTENTION_RING_PROJECTION_LAYER_H_
#define TVQ_MODELS_RUNTIME_LAYERS_ATTENTION_RING_PROJECTION_LAYER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "kernels/ops/attention/head_scores.h"
#include "kernels/ops/linear.h"
#include "kernels/ops/rotary.h"
#include "models/runtime/layers/attention/ring/ring_config.h"
#include "models/runtime/stack/layer.h"

namespace tvq {

// The weights of one group. H, G: its query and key/value heads. S: its codes, the sink's last. A
// group that grows has only `o`.
struct RingGroupWeights {
  HeadKeys score;               // C [G, S, K]; the sink's row is 0
  HeadKeys assign;              // A [G, S - 1, K] in the metric P
  std::optional<HeadKeys> map;  // M^T [H, K, K]; none: the identity
  Buffer bias;                  // b [H]
  LinearWeight o;               // [D, H K]
};

class RingProjectionLayer : public Layer {
 public:
  // Working memory that all blocks of a model share, since they run one after the other.
  struct Memory {
    bool reserved = false;
    float *normed = nullptr, *projected = nullptr;
  };

  // The device must outlive it.
  RingProjectionLayer(std::string prefix, RingAttentionConfig config,
                      std::shared_ptr<Memory> memory, Device& device)
      : Layer(std::move(prefix)),
        config_(std::move(config)),
        memory_(std::move(memory)),
        device_(device) {}

  const RingAttentionConfig& config() const { return config_; }
  const RingGroupWeights& group(size_t i) const { return groups_[i]; }

  void Load(WeightLoader& loader) override;
  void Reserve(int64_t rows, WorkingMemory& memory) override;
  absl::Status Prefill(const LayerState&, const LayerRows& rows) override { return Project(rows); }
  absl::Status Decode(const RowStates&, const LayerRows& rows) override { return Project(rows); }
  LayerRounding rounding() const override { return {.products = 2}; }

  // Called by the layer of group i. Sets in `args` where the projections of the `n` rows lie, and
  // the norms and the scale of heads.
  void Fill(size_t i, int64_t n, RotaryHeadsArgs& args) const;
  // Called by the layer of group i. Projects its output `out` [n, H, K] and adds it to the rows.
  absl::Status Output(size_t i, Tensor<const float, 3> out, const LayerRows& rows) const;

 private:
  absl::Status Project(const LayerRows& rows);
  int64_t projected_width() const {
    return (config_.rotary.heads + 2 * config_.rotary.kv_heads) * config_.rotary.head;
  }

  const RingAttentionConfig config_;
  const std::shared_ptr<Memory> memory_;
  Device& device_;
  std::vector<RingGroupWeights> groups_;
  Buffer gain_;             // [D]
  LinearWeight qkv_;        // [(H + 2 G) K, D], group after group
  Buffer qkv_bias_;         // [(H + 2 G) K] in the same order, or empty
  Buffer q_gain_, k_gain_;  // [K], or empty
  Buffer o_bias_;           // [D], or empty
};

}  // namespace tvq

#endif  // TVQ_MODELS_RUNTIME_LAYERS_ATTENTION_RING_PROJECTION_LAYER_H_
