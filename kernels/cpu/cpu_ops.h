// The functions of the backends "cpu" and "reference". Arguments have been checked by kernels/ops;
// the device is a CpuDevice. Those of "reference" are naive float64 loops, the oracle of the tests.
// Their packed weights and keys lie row-major, int4 weights as a byte each.
#ifndef TVQ_KERNELS_CPU_CPU_OPS_H_
#define TVQ_KERNELS_CPU_CPU_OPS_H_

#include "kernels/ops/ops.h"

namespace tvq {

TVQ_OPS(TVQ_DECLARE_OP, Cpu)
TVQ_OPS(TVQ_DECLARE_OP, Reference)

}  // namespace tvq

#endif  // TVQ_KERNELS_CPU_CPU_OPS_H_
