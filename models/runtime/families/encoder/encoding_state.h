// A text on its way through an encoder: the rows of all its tokens between two layers, and what the
// attention collects of them in a layer. Nothing of it outlives the call that reads the text, so a
// session has nothing to keep.
#ifndef TVQ_MODELS_RUNTIME_FAMILIES_ENCODER_ENCODING_STATE_H_
#define TVQ_MODELS_RUNTIME_FAMILIES_ENCODER_ENCODING_STATE_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "kernels/device/device.h"
#include "kernels/device/tensor.h"
#include "models/runtime/stack/state_reuse.h"
#include "models/runtime/state.h"

namespace tvq {

class EncodingState : public State {
 public:
  // Of a model with rows of `width` numbers, whose attention collects `collected_bytes`. The device
  // must outlive it.
  EncodingState(Device& device, int64_t width, int64_t collected_bytes, StateReuse reuse)
      : device_(device), width_(width), collected_bytes_(collected_bytes), reuse_(reuse) {}

  // Device bytes of a text.
  static int64_t Bytes(int64_t width, int64_t collected_bytes, int64_t tokens);

  // Takes memory for the text, and begins.
  absl::Status Begin(std::span<const int32_t> tokens);
  std::span<const int32_t> tokens() const { return tokens_; }

  // Row by row, layer by layer, each twice: collected, then attended.
  int64_t length() const { return static_cast<int64_t>(tokens_.size()); }
  int64_t pass() const { return done_ / length(); }
  int64_t row() const { return done_ % length(); }
  void Advance(int64_t rows) { done_ += rows; }

  // Rows [first, first + count) of all.
  Matrix<float> Rows(int64_t first, int64_t count) const {
    return {memory_.as<float>() + first * width_, {count, width_}};
  }
  // collected_bytes, as the last layer left them unless ClearCollected.
  std::byte* collected() const;
  absl::Status ClearCollected();

  int64_t position() const override { return 0; }
  int64_t bytes() const override { return static_cast<int64_t>(memory_.bytes()); }
  absl::Status Reset() override;
  // Only of one that has not begun.
  absl::Status CopyFrom(const State& other) override;
  std::vector<SectionInfo> Sections() const override { return {}; }
  absl::Status VisitSectionsFrom(size_t, const SectionVisitor&) const override {
    return absl::OkStatus();
  }
  // At position 0 alone.
  absl::Status Load(int64_t position, const SectionReader& read) override;

 private:
  Device& device_;
  const int64_t width_;
  const int64_t collected_bytes_;
  const StateReuse reuse_;
  std::vector<int32_t> tokens_;
  Buffer memory_;     // rows, then what is collected
  int64_t done_ = 0;  // rows of all passes
};

}  // namespace tvq

#endif  // TVQ_MODELS_RUNTIME_FAMILIES_ENCODER_ENCODING_STATE_H_
