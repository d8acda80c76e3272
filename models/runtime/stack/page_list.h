// The pages of a session (kernels/ops/attention/softmax_attention.h), which come when its context
// reaches them.
#ifndef TVQ_MODELS_RUNTIME_STACK_PAGE_LIST_H_
#define TVQ_MODELS_RUNTIME_STACK_PAGE_LIST_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "kernels/device/device.h"
#include "kernels/ops/attention/softmax_attention.h"
#include "models/runtime/stack/state_layout.h"
#include "models/runtime/stack/state_reuse.h"

namespace tvq {

class PageList {
 public:
  // Device and layout must outlive it.
  PageList(Device& device, const StateLayout& layout, StateReuse reuse)
      : device_(device), layout_(layout), reuse_(reuse) {}

  size_t size() const { return pages_.size(); }
  // What ops are told of it.
  KeyValuePages view() const;
  // Page p, which lies on the device.
  std::byte* page(size_t p) const { return pages_[p].as<std::byte>(); }

  // Gives back pages, or takes as many more, so that there are those of `tokens` positions. What is
  // behind the positions there are is whatever the memory held before. INVALID_ARGUMENT for more
  // than the layout's longest context, RESOURCE_EXHAUSTED where the device has no memory left.
  absl::Status Resize(int64_t tokens);

 private:
  absl::Status TakePages(size_t count);
  // Writes the addresses of pages_ from the index `first` on into the lists.
  absl::Status ListPages(size_t first);
  std::byte* ListOf(size_t page) const { return this->page(page) + layout_.list_offset(); }

  Device& device_;
  const StateLayout& layout_;
  const StateReuse reuse_;
  std::vector<Buffer> pages_;
};

}  // namespace tvq

#endif  // TVQ_MODELS_RUNTIME_STACK_PAGE_LIST_H_
