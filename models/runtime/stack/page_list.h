// The pages of a session (kernels/ops/attention/softmax_attention.h). A page is allocated when the
// session's context reaches it.
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

// A page can be sealed once all its positions have been fed: it is not written again, and copies of
// the list share it. Sealed pages are always the first ones, so two lists that share a page share
// all pages before it.
class PageList {
 public:
  // Device and layout must outlive it.
  PageList(Device& device, const StateLayout& layout, StateReuse reuse)
      : device_(device), layout_(layout), reuse_(reuse) {}

  size_t size() const { return pages_.size(); }
  size_t sealed() const { return sealed_; }
  // The list as ops take it; valid after List.
  KeyValuePages view() const;
  // The device address of page p.
  std::byte* page(size_t p) const { return pages_[p]->memory.as<std::byte>(); }

  // Frees pages, or allocates more, so that there are as many as `tokens` positions need. A new
  // page is not zeroed: it holds whatever its memory held before. INVALID_ARGUMENT for more tokens
  // than the layout's longest context, RESOURCE_EXHAUSTED if the device has no memory left.
  absl::Status Resize(int64_t tokens);
  // Makes this list hold the first `tokens` positions of `other`: shares sealed pages, copies the
  // others.
  absl::Status CopyFirst(const PageList& other, int64_t tokens);
  // Seals the pages whose positions are all below `position`. `pay` is called with the bytes of
  // each page that was not sealed before, and what it returns is kept until the page is freed.
  void Seal(int64_t position, const State::Pay& pay);
  // Writes the addresses of the pages to device memory. Must be called before ops, which then may
  // write the page of `position` and those behind it.
  absl::Status List(int64_t position);

 private:
  struct Page {
    std::shared_ptr<const void> paid;  // of a sealed page; destroyed after the memory
    Buffer memory;
  };

  void Drop(size_t count);
  absl::Status Take(size_t count);
  // Where in device memory the list of all pages belongs: in the last page, or in long_list_.
  absl::StatusOr<std::byte*> ListPlace();

  Device& device_;
  const StateLayout& layout_;
  const StateReuse reuse_;
  std::vector<std::shared_ptr<Page>> pages_;
  size_t sealed_ = 0;  // the first so many of pages_ are sealed
  Buffer long_list_;
  std::byte* list_ = nullptr;  // holds the addresses of the first `listed_` pages
  size_t listed_ = 0;
};

}  // namespace tvq

#endif  // TVQ_MODELS_RUNTIME_STACK_PAGE_LIST_H_
