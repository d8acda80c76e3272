// VqAppend: codes first, one after the other, then values by columns, which do not depend on one
// another.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/vq_attention/append.cc"
#include <algorithm>

#include "hwy/foreach_target.h"  // must come before highway.h
#include "hwy/highway.h"
#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/vq_attention/read_copy-inl.h"
#include "kernels/cpu/vq_attention/values-inl.h"
#include "kernels/ops/attention/vq_attention.h"

HWY_BEFORE_NAMESPACE();
namespace tvq {
namespace HWY_NAMESPACE {

// A task's columns: wide enough to be a good stretch of memory.
inline constexpr int64_t kAppendColumns = 256;
static_assert(kAppendColumns % kVqScaleColumns == 0);

template <typename T>
void AppendAll(CpuDevice& cpu, const VqAppendArgs& args) {
  const VqShape& shape = args.shape;
  const int64_t tokens = args.codes.dim(0);
  const int64_t heads = shape.kv_heads;
  int32_t* retired = cpu.Scratch<int32_t>(0, tokens * heads);
  for (int64_t i = 0; i < tokens * heads; ++i) {
    retired[i] =
        AppendCode(shape, args.state, i % heads, args.position + i / heads, args.codes.data[i]);
  }
  const int64_t tiles = (shape.value + kAppendColumns - 1) / kAppendColumns;
  RunTasks(cpu, heads * tiles, tokens * heads * shape.value * 4, [&](int64_t task) {
    const int64_t g = task / tiles;
    const int64_t first = task % tiles * kAppendColumns;
    const int64_t end = std::min(first + kAppendColumns, shape.value);
    for (int64_t t = 0; t < tokens; ++t) {
      AppendValues(RowsOf<T>(shape, args.state, g, args.position + t, retired[t * heads + g]),
                   args.v.row(t) + g * shape.value, first, end);
    }
    for (int64_t t = 0; t < tokens; ++t) {
      RefreshCopy<T>(shape, args.state, g, args.position + t, retired[t * heads + g], first, end);
    }
  });
}

void VqAppendAll(CpuDevice& cpu, const VqAppendArgs& args) {
  if (args.shape.value_dtype == DType::kFloat32) {
    AppendAll<float>(cpu, args);
  } else {
    AppendAll<BFloat16>(cpu, args);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace tvq
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tvq {

HWY_EXPORT(VqAppendAll);

absl::Status CpuVqAppend(Device& device, const VqAppendArgs& args) {
  HWY_DYNAMIC_DISPATCH(VqAppendAll)(AsCpu(device), args);
  return absl::OkStatus();
}

}  // namespace tvq
#endif
