#include "kernels/ops/linear.h"

#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/linear/run_linear.h"

namespace tvq {

absl::Status CpuLinear(Device& device, const LinearArgs& args) {
  const OutputColumns columns{.count = args.weight->out,
                              .y = args.y.data,
                              .stride = args.weight->out,
                              .bias = args.bias.data,
                              .scale = args.scale,
                              .activation = args.activation,
                              .accumulate = args.accumulate};
  RunLinear(AsCpu(device), *args.weight, {.x = args.x}, {&columns, 1});
  return absl::OkStatus();
}

absl::Status CpuGatedOutput(Device& device, const GatedOutputArgs& args) {
  const OutputColumns columns{.count = args.weight->out,
                              .y = args.y.data,
                              .stride = args.weight->out,
                              .bias = args.bias.data,
                              .accumulate = true};
  RunLinear(AsCpu(device), *args.weight, {.x = args.o, .times = args.g.data}, {&columns, 1});
  return absl::OkStatus();
}

}  // namespace tvq
