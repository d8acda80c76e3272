// The pages of a session (kernels/ops/attention/softmax_attention.h), which come when its context
// reaches them.
#ifndef TVQ_MODELS_RUNTIME_STACK_PAGE_LIST_H_
#define TVQ_MODELS_RUNTIME_STACK_PAGE_LIST_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/device/device.h"
#include "kernels/ops/attention/softmax_attention.h"
#include "models/runtime/stack/state_layout.h"
#include "models/runtime/stack/state_reuse.h"
#include "models/runtime/state.h"

namespace tvq {

// Pages of positions that are all there can be sealed: they are not written again, and copies hold
// them, too, instead of copies. They are always the first ones, so what shares a page shares all
// that are before it.
class PageList {
 public:
  // Device and layout must outlive it.
  PageList(Device& device, const StateLayout& layout, StateReuse reuse)
      : device_(device), layout_(layout), reuse_(reuse) {}

  size_t size() const { return pages_.size(); }
  size_t sealed() const { return sealed_; }
  // What ops are told of it, once they are listed.
  KeyValuePages view() const;
  // Page p, which lies on the device.
  std::byte* page(size_t p) const { return pages_[p]->memory.as<std::byte>(); }

  // Gives back pages, or takes as many more, so that there are those of `tokens` positions. What is
  // behind the positions there are is whatever the memory held before. INVALID_ARGUMENT for more
  // than the layout's longest context, RESOURCE_EXHAUSTED where the device has no memory left.
  absl::Status Resize(int64_t tokens);
  // Makes them those of the first `tokens` positions of `other`.
  absl::Status CopyFirst(const PageList& other, int64_t tokens);
  // Seals the pages whose positions are all below `position`. `pay` is called with the bytes of
  // each that was not, and what it gives is kept until the page is freed.
  void Seal(int64_t position, const State::Pay& pay);
  // Ahead of ops, which may write the page of `position` and those behind it: lists the pages in
  // device memory.
  absl::Status List(int64_t position);

 private:
  struct Page {
    std::shared_ptr<const void> paid;  // sealed; given back behind the memory
    Buffer memory;
  };

  void Drop(size_t count);
  absl::Status Take(size_t count);
  // Where the list of all pages there are belongs.
  absl::StatusOr<std::byte*> ListPlace();

  Device& device_;
  const StateLayout& layout_;
  const StateReuse reuse_;
  std::vector<std::shared_ptr<Page>> pages_;
  size_t sealed_ = 0;  // of pages_, the first ones
  Buffer long_list_;
  std::byte* list_ = nullptr;  // where the first `listed_` are listed
  size_t listed_ = 0;
};

}  // namespace tvq

#endif  // TVQ_MODELS_RUNTIME_STACK_PAGE_LIST_H_
