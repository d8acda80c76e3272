// What the ops of a call need to know of its rows, in device memory: one copy a call. It lies at
// addresses that the number of rows decides, so that a recorded step finds what was set last.
#ifndef TVQ_MODELS_RUNTIME_ARCH_TRANSFORMER_ROW_INPUTS_H_
#define TVQ_MODELS_RUNTIME_ARCH_TRANSFORMER_ROW_INPUTS_H_

#include <cstdint>
#include <cstdlib>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/device/device.h"
#include "kernels/device/tensor.h"

namespace tvq::transformer {

class RowInputs {
 public:
  // Room for `rows` rows of a model of `layers` layers, whose ops are told `view_bytes` of each
  // row's state in each layer: a struct of pointers and integers of 8 bytes.
  static absl::StatusOr<RowInputs> Create(Device& device, int64_t rows, int64_t layers,
                                          size_t view_bytes);

  int64_t bytes() const { return static_cast<int64_t>(memory_.bytes()); }

  // tokens and positions [n]; views [layers * n], those of a layer together, or none.
  absl::Status Set(Device& device, std::span<const int32_t> tokens,
                   std::span<const int64_t> positions, std::span<const std::byte> views);

  // As Set left them, [n].
  Vector<const int32_t> tokens() const { return {At<int32_t>(tokens_), {rows_}}; }
  Vector<const int64_t> positions() const { return {At<int64_t>(positions_), {rows_}}; }
  template <typename View>
  Vector<const View> views(int64_t layer) const {
    if (sizeof(View) != view_bytes_) std::abort();
    return {At<View>(views_) + layer * rows_, {rows_}};
  }

 private:
  template <typename T>
  const T* At(size_t offset) const {
    return reinterpret_cast<const T*>(memory_.as<const std::byte>() + offset);
  }

  Buffer memory_;
  std::vector<std::byte> host_;                    // what memory_ holds
  size_t positions_ = 0, tokens_ = 0, views_ = 0;  // offsets
  size_t view_bytes_ = 0;
  int64_t rows_ = 0;
};

}  // namespace tvq::transformer

#endif  // TVQ_MODELS_RUNTIME_ARCH_TRANSFORMER_ROW_INPUTS_H_
