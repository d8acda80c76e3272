// What the ops of a call need to know of its rows, in device memory: one copy a call. It lies at
// addresses that the number of rows decides, so that a recorded step finds what was set last.
#ifndef TVQ_MODELS_RUNTIME_ARCH_TRANSFORMER_VQ_ROW_INPUTS_H_
#define TVQ_MODELS_RUNTIME_ARCH_TRANSFORMER_VQ_ROW_INPUTS_H_

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/device.h"
#include "kernels/ops/vq_attention.h"
#include "kernels/tensor.h"

namespace tvq::transformer_vq {

class RowInputs {
 public:
  // Room for `rows` rows of a model of `layers` layers.
  static absl::StatusOr<RowInputs> Create(Device& device, int64_t rows, int64_t layers);

  int64_t bytes() const { return static_cast<int64_t>(memory_.bytes()); }

  // tokens and positions [n]; states [layers * n], those of a layer together, or none.
  absl::Status Set(Device& device, std::span<const int32_t> tokens,
                   std::span<const int64_t> positions, std::span<const VqState> states);

  // As Set left them, [n].
  Vector<const int32_t> tokens() const { return {At<int32_t>(tokens_), {rows_}}; }
  Vector<const int64_t> positions() const { return {At<int64_t>(positions_), {rows_}}; }
  Vector<const VqState> states(int64_t layer) const {
    return {At<VqState>(states_) + layer * rows_, {rows_}};
  }

 private:
  template <typename T>
  const T* At(size_t offset) const {
    return reinterpret_cast<const T*>(memory_.as<const std::byte>() + offset);
  }

  Buffer memory_;
  std::vector<std::byte> host_;                     // what memory_ holds
  size_t positions_ = 0, tokens_ = 0, states_ = 0;  // offsets
  int64_t rows_ = 0;
};

}  // namespace tvq::transformer_vq

#endif  // TVQ_MODELS_RUNTIME_ARCH_TRANSFORMER_VQ_ROW_INPUTS_H_
