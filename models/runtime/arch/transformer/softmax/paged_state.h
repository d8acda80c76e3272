// A session of a softmax Transformer: keys and values of every position, in pages that come when
// the context reaches them.
#ifndef TVQ_MODELS_RUNTIME_ARCH_TRANSFORMER_SOFTMAX_PAGED_STATE_H_
#define TVQ_MODELS_RUNTIME_ARCH_TRANSFORMER_SOFTMAX_PAGED_STATE_H_

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/device/device.h"
#include "kernels/ops/attention/softmax_attention.h"
#include "models/runtime/arch/transformer/memory_parts.h"
#include "models/runtime/arch/transformer/session_state.h"

namespace tvq::transformer {

// A page holds kKeyValuePage positions of all layers, one layer behind the other, and a list of
// pages (KeyValuePages): so pages are all that a session takes, and all of one size, which fill
// reserved memory to the last.
struct PageLayout {
  KeyValueShape shape;
  int64_t layers = 0;
  int64_t max_position = 0;  // of any session

  int64_t page_bytes() const {
    return list_offset() + Aligned(8 * std::min(Pages(max_position), KeyValuePages::kListed));
  }
  // Of the keys and values alone.
  int64_t list_offset() const { return layers * shape.LayerBytes(); }
  int64_t LayerOffset(int64_t layer) const { return layer * shape.LayerBytes(); }
  static int64_t Pages(int64_t tokens) {
    return tokens / kKeyValuePage + (tokens % kKeyValuePage > 0 ? 1 : 0);
  }
  // Of the pages of so many tokens; kMostBytes where that is more, whatever the context's limit.
  int64_t Bytes(int64_t tokens) const;
  // Of a state at `position`, a layer's after the other's.
  std::vector<SectionInfo> Sections(int64_t position) const;

  static constexpr int64_t kMostBytes = int64_t{1} << 60;
};

class PagedState : public SessionState {
 public:
  // Device and layout must outlive it.
  static std::unique_ptr<PagedState> Create(Device& device, const PageLayout& layout,
                                            StateMemory memory = StateMemory::kReusable) {
    return std::unique_ptr<PagedState>(new PagedState(device, layout, memory));
  }

  int64_t bytes() const override {
    return static_cast<int64_t>(pages_.size()) * layout_.page_bytes();
  }
  absl::Status CopyFrom(const State& other) override;
  absl::Status Reset() override;
  std::vector<SectionInfo> Sections() const override { return layout_.Sections(position_); }
  absl::Status VisitSectionsFrom(size_t first, const SectionVisitor& visit) const override;
  absl::Status Load(int64_t position, const SectionReader& read) override;
  absl::Status Synthesize(int64_t position, uint64_t seed) override;
  absl::Status Extend(int64_t tokens) override;

  KeyValuePages pages() const {
    if (pages_.empty()) return {};
    return {reinterpret_cast<void* const*>(ListOf(0)), static_cast<int64_t>(pages_.size()),
            layout_.list_offset()};
  }

 private:
  PagedState(Device& device, const PageLayout& layout, StateMemory memory)
      : device_(device), layout_(layout), memory_(memory) {}

  // Gives back pages, or takes as many more, so that there are those of `tokens` positions. What is
  // behind the positions there are is whatever the memory held before.
  absl::Status Resize(int64_t tokens);
  absl::Status TakePages(size_t count);
  // Writes the addresses of pages_ from the index `first` on into the lists.
  absl::Status ListPages(size_t first);
  // On the device.
  std::byte* ListOf(size_t page) const {
    return pages_[page].as<std::byte>() + layout_.list_offset();
  }
  // Load, but for what happens after an error.
  absl::Status TryLoad(int64_t position, const SectionReader& read);
  // One layer's part of every page, in host memory.
  absl::Status LayerToHost(int64_t layer, std::vector<std::byte>& host) const;
  absl::Status LayerFromHost(int64_t layer, const std::vector<std::byte>& host);

  Device& device_;
  const PageLayout& layout_;
  const StateMemory memory_;
  std::vector<Buffer> pages_;  // at least those of the positions there are
};

}  // namespace tvq::transformer

#endif  // TVQ_MODELS_RUNTIME_ARCH_TRANSFORMER_SOFTMAX_PAGED_STATE_H_
