// BuildVqReadCopy: every row, one after the other.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/vq_attention/read_copy.cc"
#include "hwy/foreach_target.h"  // must come before highway.h
#include "hwy/highway.h"
#include "kernels/cpu/vq_attention/read_copy-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tvq {
namespace HWY_NAMESPACE {

template <typename T>
void BuildCopyOf(const VqShape& shape, const VqState& host) {
  for (int64_t g = 0; g < shape.kv_heads; ++g) {
    for (int64_t s = 0; s < shape.codes; ++s) CopyMean(shape, host, g, s, 0, shape.value);
    for (int64_t w = 0; w < shape.window; ++w) CopyRecent<T>(shape, host, g, w, 0, shape.value);
  }
}

void BuildCopy(const VqShape& shape, const VqState& host) {
  if (shape.value_dtype == DType::kFloat32) {
    BuildCopyOf<float>(shape, host);
  } else {
    BuildCopyOf<BFloat16>(shape, host);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace tvq
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tvq {

HWY_EXPORT(BuildCopy);

void BuildVqReadCopy(const VqShape& shape, const VqState& host) {
  HWY_DYNAMIC_DISPATCH(BuildCopy)(shape, host);
}

}  // namespace tvq
#endif
