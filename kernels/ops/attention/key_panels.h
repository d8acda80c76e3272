// Keys lie in panels of kKeyPanel positions. For each number of a key a panel has a vector with
// that number of all its positions, since products with queries read keys in this order.
#ifndef TVQ_KERNELS_OPS_ATTENTION_KEY_PANELS_H_
#define TVQ_KERNELS_OPS_ATTENTION_KEY_PANELS_H_

#include <cstdint>

namespace tvq {

inline constexpr int64_t kKeyPanel = 16;

}  // namespace tvq

#endif  // TVQ_KERNELS_OPS_ATTENTION_KEY_PANELS_H_
