// Keys lie in panels of so many positions, a vector for each number of a key, which is what
// products with queries read.
#ifndef TVQ_KERNELS_OPS_ATTENTION_KEY_PANELS_H_
#define TVQ_KERNELS_OPS_ATTENTION_KEY_PANELS_H_

#include <cstdint>

namespace tvq {

inline constexpr int64_t kKeyPanel = 16;

}  // namespace tvq

#endif  // TVQ_KERNELS_OPS_ATTENTION_KEY_PANELS_H_
