#include "models/runtime/stack/row_inputs.h"

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

namespace tvq {
namespace {

// Views lie one behind the other, so their sizes must be multiples of this.
constexpr size_t kViewAlignment = 8;

}  // namespace

absl::StatusOr<RowInputs> RowInputs::Create(Device& device, int64_t rows,
                                            std::span<const size_t> view_bytes) {
  RowInputs inputs;
  const auto n = static_cast<size_t>(rows);
  for (const size_t bytes : view_bytes) {
    if (bytes % kViewAlignment != 0) {
      return absl::InternalError(absl::StrCat("layer ", inputs.views_to_.size(), " has views of ",
                                              bytes, " bytes, must be a multiple of ",
                                              kViewAlignment));
    }
    inputs.views_to_.push_back(inputs.view_bytes() + bytes);
  }
  // The widest elements first, so that all are aligned.
  inputs.views_ = n * sizeof(int64_t);
  inputs.tokens_ = inputs.views_ + n * inputs.view_bytes();
  inputs.host_.resize(inputs.tokens_ + n * sizeof(int32_t));
  absl::StatusOr<Buffer> memory = device.Allocate(inputs.host_.size());
  if (!memory.ok()) return memory.status();
  inputs.memory_ = *std::move(memory);
  return inputs;
}

absl::Status RowInputs::Set(Device& device, std::span<const int32_t> tokens,
                            std::span<const int64_t> positions, std::span<const std::byte> views) {
  rows_ = static_cast<int64_t>(tokens.size());
  std::memcpy(host_.data() + positions_, positions.data(), positions.size_bytes());
  if (!views.empty()) std::memcpy(host_.data() + views_, views.data(), views.size());
  // Tokens directly follow the views of this call, so that all that is copied is of this call.
  tokens_ = views_ + views.size();
  std::memcpy(host_.data() + tokens_, tokens.data(), tokens.size_bytes());
  return device.Send(memory_.data(), host_.data(), tokens_ + tokens.size_bytes());
}

}  // namespace tvq
