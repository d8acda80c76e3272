#include "kernels/cpu/cpu_device.h"
#include "kernels/cpu/reference_ops.h"

namespace tvq {

const Backend& ReferenceBackend() {
  static constexpr Backend kBackend = {
      .name = "reference",
  };
  return kBackend;
}

}  // namespace tvq
