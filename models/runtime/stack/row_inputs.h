// What the ops of a call need to know of its rows, in device memory: tokens, positions and views of
// states, sent by one copy for each call. Their addresses depend on the number of rows alone, so
// that a recorded step reads what was set last.
#ifndef TVQ_MODELS_RUNTIME_STACK_ROW_INPUTS_H_
#define TVQ_MODELS_RUNTIME_STACK_ROW_INPUTS_H_

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/device/device.h"
#include "kernels/device/tensor.h"
#include "models/runtime/stack/layer.h"

namespace tvq {

class RowInputs {
 public:
  // Room for `rows` rows. `view_bytes` has the bytes of a row's view for each layer
  // (Layer::view_bytes).
  static absl::StatusOr<RowInputs> Create(Device& device, int64_t rows,
                                          std::span<const size_t> view_bytes);

  int64_t bytes() const { return static_cast<int64_t>(memory_.bytes()); }

  // tokens and positions [n]. views: for each layer in turn the views of its n rows; or empty.
  absl::Status Set(Device& device, std::span<const int32_t> tokens,
                   std::span<const int64_t> positions, std::span<const std::byte> views);

  // [n], as last given to Set.
  Vector<const int32_t> tokens() const { return {At<int32_t>(tokens_), {rows_}}; }
  Vector<const int64_t> positions() const { return {At<int64_t>(positions_), {rows_}}; }
  int64_t rows() const { return rows_; }
  RowStates states(size_t layer) const {
    const size_t before = layer == 0 ? 0 : views_to_[layer - 1];
    return {At<std::byte>(views_ + before * static_cast<size_t>(rows_)), views_to_[layer] - before,
            positions()};
  }
  // Bytes of a row's views, all layers together.
  size_t view_bytes() const { return views_to_.empty() ? 0 : views_to_.back(); }

 private:
  template <typename T>
  const T* At(size_t offset) const {
    return reinterpret_cast<const T*>(memory_.as<const std::byte>() + offset);
  }

  Buffer memory_;
  std::vector<std::byte> host_;                    // what memory_ holds
  size_t positions_ = 0, tokens_ = 0, views_ = 0;  // offsets
  std::vector<size_t> views_to_;                   // bytes of a row's views up to each layer
  int64_t rows_ = 0;
};

}  // namespace tvq

#endif  // TVQ_MODELS_RUNTIME_STACK_ROW_INPUTS_H_
