// VqTakeBack restores the few rows that one position overwrote.
#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/vq_attention/undo.h"
#include "kernels/ops/attention/vq_attention.h"

namespace tvq {

absl::Status CpuVqTakeBack(Device&, const VqTakeBackArgs& args) {
  const auto restore = [](std::byte* of_state, const std::byte* kept, size_t bytes) {
    std::memcpy(of_state, kept, bytes);
  };
  for (int64_t g = 0; g < args.shape.kv_heads; ++g) {
    ForEachOverwritten(args.shape, args.state, g, args.position, restore);
    ForEachKeyNumber(args.shape, args.state, g, args.position, restore);
  }
  return absl::OkStatus();
}

absl::Status ReferenceVqTakeBack(Device& device, const VqTakeBackArgs& args) {
  return CpuVqTakeBack(device, args);
}

}  // namespace tvq
