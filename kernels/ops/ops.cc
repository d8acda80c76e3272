#include "kernels/ops/ops.h"

#include "absl/strings/str_cat.h"
#include "kernels/ops/backend.h"
#include "kernels/ops/check.h"

namespace tvq {

#define TVQ_OP(entry, Name, ...)                                                    \
  absl::Status Name(Device& device, const Name##Args& args) {                       \
    const Backend& backend = device.backend();                                      \
    if (backend.entry == nullptr) {                                                 \
      return absl::UnimplementedError(                                              \
          absl::StrCat(#Name ": the backend '", backend.name, "' has no such op")); \
    }                                                                               \
    const absl::Status status = CheckArgs(device, args);                            \
    return status.ok() ? backend.entry(device, args) : status;                      \
  }
TVQ_OPS(TVQ_OP, )

#define TVQ_SUPPORT(entry, Name, ...)                      \
  template <>                                              \
  bool Supports<struct Name##Args>(const Device& device) { \
    return device.backend().entry != nullptr;              \
  }
TVQ_OPS(TVQ_SUPPORT, )

}  // namespace tvq
