#include "kernels/ops/backend.h"

#include "kernels/cpu/cpu_device.h"
#include "kernels/cpu/cpu_ops.h"

namespace tvq {

const Backend& CpuBackend() {
  static constexpr Backend kBackend = {.name = "cpu", TVQ_OPS(TVQ_ENTRY_OF_OP, Cpu)};
  return kBackend;
}

const Backend& ReferenceBackend() {
  static constexpr Backend kBackend = {.name = "reference", TVQ_OPS(TVQ_ENTRY_OF_OP, Reference)};
  return kBackend;
}

}  // namespace tvq
