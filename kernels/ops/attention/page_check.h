// Checks of arguments that ops on pages of keys and values share.
#ifndef TVQ_KERNELS_OPS_ATTENTION_PAGE_CHECK_H_
#define TVQ_KERNELS_OPS_ATTENTION_PAGE_CHECK_H_

#include "absl/status/status.h"
#include "kernels/ops/attention/softmax_attention.h"

namespace tvq {

absl::Status CheckKeyValueShape(const char* op, const KeyValueShape& shape, int64_t offset);

// Checks that `pages` reach position `last`. Reads the list of pages, which must be in host memory.
absl::Status CheckPages(const char* op, const KeyValuePages& pages, int64_t last);

}  // namespace tvq

#endif  // TVQ_KERNELS_OPS_ATTENTION_PAGE_CHECK_H_
