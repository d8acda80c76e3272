#include "models/runtime/arch/transformer/session_state.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace tvq::transformer {
namespace {

// Far above any session, and far enough from the largest integer for sums of positions.
constexpr int64_t kLargestPosition = int64_t{1} << 62;

}  // namespace

absl::Status CheckPosition(int64_t position) {
  if (position >= 0 && position <= kLargestPosition) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("position is ", position, ", must be 0 to ", kLargestPosition));
}

absl::StatusOr<Device::Reusable> AllocateState(Device& device, int64_t bytes, StateMemory memory) {
  const auto size = static_cast<size_t>(bytes);
  if (memory == StateMemory::kReusable) return device.AllocateReusable(size);
  absl::StatusOr<Buffer> once = device.Allocate(size);
  if (!once.ok()) return once.status();
  return Device::Reusable{*std::move(once)};
}

}  // namespace tvq::transformer
