// The table of functions of a backend: an entry per op. ops.cc checks arguments once, then calls
// through the table; a backend's functions may assume what was checked. A missing entry is
// UNIMPLEMENTED.
#ifndef TVQ_KERNELS_OPS_BACKEND_H_
#define TVQ_KERNELS_OPS_BACKEND_H_

#include "kernels/ops/ops.h"

namespace tvq {

struct Backend {
  const char* name = "";
#define TVQ_OP(entry, Name, ...) absl::Status (*entry)(Device&, const Name##Args&) = nullptr;
  TVQ_OPS(TVQ_OP, )
#undef TVQ_OP
};

}  // namespace tvq

#endif  // TVQ_KERNELS_OPS_BACKEND_H_
