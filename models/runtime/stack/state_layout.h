// Where the parts of all layers lie in a session's memory. Parts of constant size lie in one block,
// layer after layer. Parts that grow lie in pages of kKeyValuePage positions; a page holds these
// positions for all layers.
#ifndef TVQ_MODELS_RUNTIME_STACK_STATE_LAYOUT_H_
#define TVQ_MODELS_RUNTIME_STACK_STATE_LAYOUT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/ops/attention/softmax_attention.h"
#include "models/runtime/stack/layer_parts.h"
#include "models/runtime/stack/state_reuse.h"
#include "models/runtime/stack/working_memory.h"
#include "models/runtime/state.h"

namespace tvq {

// Immutable, hence thread-safe.
class StateLayout {
 public:
  // What a layer keeps of a session; the names of its sections begin with `prefix`.
  struct Kept {
    std::string prefix;
    const LayerParts* parts = nullptr;
  };
  // The layers' parts must outlive it. `max_position`: the longest context of a session with pages.
  StateLayout(const std::vector<Kept>& layers, int64_t max_position);

  struct Layer {
    std::string prefix;
    const LayerParts* parts = nullptr;
    std::vector<int64_t> offsets;  // of every part, in the block or in a page
    int64_t block_first = 0;       // where the layer's part of the block begins, in bytes
    int64_t block_bytes = 0;       // a multiple of 64
    int64_t page_first = 0;
    int64_t page_bytes = 0;
  };
  const std::vector<Layer>& layers() const { return layers_; }

  int64_t block_bytes() const { return block_bytes_; }
  // Bytes of a page; 0 if no part grows. Behind the parts each page has room for a list of up to
  // kListed pages. If all parts are in pages, all allocations on the device have one size and fill
  // reserved memory completely. If not, they have two sizes, and a gap that a block leaves may be
  // too small for a page (kernels/host/slab.h).
  int64_t page_bytes() const { return page_bytes_; }
  static constexpr int64_t kListed = 128;
  // Bytes of the separate memory that a list of more than kListed pages takes: a power of two of
  // pages. 0 for fewer: then the last page, which no other session shares, holds the list.
  int64_t ListBytes(int64_t pages) const;
  bool AllInPages() const { return block_bytes_ == 0 && page_bytes_ > 0; }
  int64_t list_offset() const { return list_offset_; }
  int64_t max_position() const { return max_position_; }
  int64_t Pages(int64_t tokens) const { return page_bytes_ == 0 ? 0 : PagesOf(tokens); }

  // Device bytes of a state after `tokens` tokens, at most kMostBytes. `tokens` may be more than
  // max_position.
  int64_t Bytes(int64_t tokens) const;

  // As State::Sections.
  std::vector<SectionInfo> Sections(int64_t position) const;
  std::vector<SectionInfo> LayerSections(size_t layer, int64_t position) const;

 private:
  static int64_t PagesOf(int64_t tokens) {
    return tokens / kKeyValuePage + (tokens % kKeyValuePage > 0 ? 1 : 0);
  }

  std::vector<Layer> layers_;
  int64_t block_bytes_ = 0, page_bytes_ = 0, list_offset_ = 0;
  const int64_t max_position_;
};

}  // namespace tvq

#endif  // TVQ_MODELS_RUNTIME_STACK_STATE_LAYOUT_H_
