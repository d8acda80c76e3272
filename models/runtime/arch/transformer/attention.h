// What the stack of layers knows of an attention kind: all in which transformers of different
// families differ.
#ifndef TVQ_MODELS_RUNTIME_ARCH_TRANSFORMER_ATTENTION_H_
#define TVQ_MODELS_RUNTIME_ARCH_TRANSFORMER_ATTENTION_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "kernels/device/tensor.h"
#include "kernels/ops/qkvg_projection.h"
#include "models/runtime/arch/transformer/layer_parts.h"
#include "models/runtime/arch/transformer/row_inputs.h"
#include "models/runtime/arch/transformer/session_state.h"
#include "models/runtime/arch/transformer/state_layout.h"
#include "models/runtime/arch/transformer/weight_loader.h"
#include "models/runtime/model.h"

namespace tvq::transformer {

class Bidirectional;

// Values that go into a layer's attention and its output, of the n rows of a call. Queries and keys
// are the kind's own affair.
struct AttentionRows {
  Tensor<float, 3> v;    // [n, G, V]
  Tensor<float, 3> out;  // [n, H, V]
};

// The weights that a kind adds to each layer, its working memory and what it keeps of a session.
// parts may be used from any thread, everything else from one at a time.
class Attention {
 public:
  virtual ~Attention() = default;

  // Called for every layer in their order, with the prefix of its tensors' names. What is wrong is
  // in `loader`.
  virtual void LoadLayer(const std::string& prefix, WeightLoader& loader) = 0;

  // Gets the working memory for calls of up to `rows` rows; once.
  virtual absl::Status Reserve(int64_t rows) = 0;
  virtual int64_t WorkspaceBytes() const = 0;

  // Of what states keep of positions, and how many such parts of a layer that is rounded to.
  virtual DType state_dtype() const = 0;
  virtual int64_t kept_parts() const = 0;
  // Factors of a layer's products that Prefill rounds to bfloat16 where weights are not float32.
  virtual int64_t rounded_factors() const { return 0; }

  // Of kinds that have a choice (model.h).
  virtual StateReads reads() const { return {}; }
  virtual StateReadTotals read_totals() const { return {}; }
  // Ahead of a step of `rows` rows, which calls Decode or carries out what Decode was recorded as.
  virtual absl::Status BeginStep(int64_t rows) {
    static_cast<void>(rows);
    return absl::OkStatus();
  }

  // What each layer keeps of a session, and, told once, where it lies in states (StateLayout).
  virtual const LayerParts& parts() const = 0;
  virtual void Place(const StateLayout& layout) { static_cast<void>(layout); }

  // What a decode op is told of a session's state in a layer: one of its structs, as bytes. All
  // zero it is of nobody.
  virtual size_t view_bytes() const = 0;
  virtual void View(const PartMemory& memory, std::byte* view) const = 0;

  // Of kinds that can take rows back: rows of a call that come behind another of the same state, at
  // most so many, numbered from 0 (Model::DraftRows).
  virtual int64_t draft_rows() const { return 0; }
  // Completes the view of one: its step keeps what TakeBack needs until another row has the number.
  virtual void ViewDraft(int64_t layer, int64_t draft, std::byte* view) const {
    static_cast<void>(layer), static_cast<void>(draft), static_cast<void>(view);
  }
  // Of all layers, the position that was fed last to the state, as that row.
  virtual absl::Status TakeBack(const SessionState& state, int64_t position, int64_t draft) {
    static_cast<void>(state), static_cast<void>(position), static_cast<void>(draft);
    return absl::UnimplementedError("attention of this kind takes nothing back");
  }

  // Fills in of a layer's projections what is the kind's: where queries and keys go, and what is
  // added to queries.
  virtual void Project(int64_t layer, int64_t rows, QkvgProjectionArgs& args) const = 0;

  // Attention over the rows that were projected last; feeds them to the state, or to those that
  // `inputs` has. Decode must not depend on the number of rows, and can be recorded unless the host
  // takes part.
  virtual absl::Status Prefill(int64_t layer, const SessionState& state,
                               const AttentionRows& rows) = 0;
  virtual absl::Status Decode(int64_t layer, const RowInputs& inputs,
                              const AttentionRows& rows) = 0;
  virtual bool host_takes_part() const { return false; }

  virtual QuantizedKeys* quantized_keys() { return nullptr; }
  // Of a kind that encodes; then Prefill and Decode are UNIMPLEMENTED.
  virtual Bidirectional* bidirectional() { return nullptr; }
};

}  // namespace tvq::transformer

#endif  // TVQ_MODELS_RUNTIME_ARCH_TRANSFORMER_ATTENTION_H_
