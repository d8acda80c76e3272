#include "models/runtime/arch/transformer_vq/row_inputs.h"

#include <cstring>
#include <utility>

namespace tvq::transformer_vq {

absl::StatusOr<RowInputs> RowInputs::Create(Device& device, int64_t rows, int64_t layers) {
  RowInputs inputs;
  const auto n = static_cast<size_t>(rows);
  // The widest elements first, so that all are aligned.
  inputs.states_ = n * sizeof(int64_t);
  inputs.tokens_ = inputs.states_ + n * static_cast<size_t>(layers) * sizeof(VqState);
  inputs.host_.resize(inputs.tokens_ + n * sizeof(int32_t));
  absl::StatusOr<Buffer> memory = device.Allocate(inputs.host_.size());
  if (!memory.ok()) return memory.status();
  inputs.memory_ = *std::move(memory);
  return inputs;
}

absl::Status RowInputs::Set(Device& device, std::span<const int32_t> tokens,
                            std::span<const int64_t> positions, std::span<const VqState> states) {
  rows_ = static_cast<int64_t>(tokens.size());
  std::memcpy(host_.data() + positions_, positions.data(), positions.size_bytes());
  if (!states.empty()) std::memcpy(host_.data() + states_, states.data(), states.size_bytes());
  // Tokens follow the states that are there, so that what is copied has no hole of last time's.
  tokens_ = states_ + states.size_bytes();
  std::memcpy(host_.data() + tokens_, tokens.data(), tokens.size_bytes());
  return device.Send(memory_.data(), host_.data(), tokens_ + tokens.size_bytes());
}

}  // namespace tvq::transformer_vq
