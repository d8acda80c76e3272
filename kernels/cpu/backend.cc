#include "kernels/cpu/cpu_device.h"
#include "kernels/cpu/cpu_ops.h"

namespace tvq {

const Backend& CpuBackend() {
  static constexpr Backend kBackend = {
      .name = "cpu",
  };
  return kBackend;
}

}  // namespace tvq
