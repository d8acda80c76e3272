// A text that an encoder is computing: the rows of all its tokens between two layers, and the sums
// by code that attention collects within a layer. It is not needed after the call that encodes the
// text, so sessions keep nothing of it.
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
  // For a model with rows of `width` numbers, whose attention collects `collected_bytes` in a
  // layer. The device must outlive it.
  EncodingState(Device& device, int64_t width, int64_t collected_bytes, StateReuse reuse)
      : device_(device), width_(width), collected_bytes_(collected_bytes), reuse_(reuse) {}

  // Device bytes that a text of `tokens` tokens takes.
  static int64_t Bytes(int64_t width, int64_t collected_bytes, int64_t tokens);

  // Allocates memory for the text and sets the progress to its first row.
  absl::Status Begin(std::span<const int32_t> tokens);
  std::span<const int32_t> tokens() const { return tokens_; }

  // How far the text is computed. Each layer makes two passes over all rows: the first collects,
  // the second attends.
  int64_t length() const { return static_cast<int64_t>(tokens_.size()); }
  int64_t pass() const { return done_ / length(); }
  int64_t row() const { return done_ % length(); }
  void Advance(int64_t rows) { done_ += rows; }

  // Rows [first, first + count) of all.
  Matrix<float> Rows(int64_t first, int64_t count) const {
    return {memory_.as<float>() + first * width_, {count, width_}};
  }
  // The collected_bytes of the current layer. They hold those of the layer before until
  // ClearCollected.
  std::byte* collected() const;
  absl::Status ClearCollected();

  int64_t position() const override { return 0; }
  int64_t bytes() const override { return static_cast<int64_t>(memory_.bytes()); }
  absl::Status Reset() override;
  // UNIMPLEMENTED unless `other` is empty: it has no text.
  absl::Status CopyFrom(const State& other) override;
  std::vector<SectionInfo> Sections() const override { return {}; }
  absl::Status VisitSectionsFrom(size_t, const SectionVisitor&) const override {
    return absl::OkStatus();
  }
  // INVALID_ARGUMENT unless `position` is 0.
  absl::Status Load(int64_t position, const SectionReader& read) override;

 private:
  Device& device_;
  const int64_t width_;
  const int64_t collected_bytes_;
  const StateReuse reuse_;
  std::vector<int32_t> tokens_;
  Buffer memory_;     // rows, then what is collected
  int64_t done_ = 0;  // rows computed, over all passes
};

}  // namespace tvq

#endif  // TVQ_MODELS_RUNTIME_FAMILIES_ENCODER_ENCODING_STATE_H_
