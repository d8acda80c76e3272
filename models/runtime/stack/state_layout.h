// Where the parts of all layers lie in a session's memory: those of constant size in one block, a
// layer behind the other, the rest in pages of kKeyValuePage positions, which hold all layers.
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
  // What a layer keeps; names of its sections begin with `prefix`.
  struct Kept {
    std::string prefix;
    const LayerParts* parts = nullptr;
  };
  // The layers' parts must outlive it. `max_position`: of any session that has pages.
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
  // A page's: every one has room behind the parts for a list of up to kListed pages. Where all
  // parts are in pages the device only gets blocks of one size, which fill reserved memory to the
  // last. Where others are not, it gets blocks of two sizes, and a gap that blocks leave may hold
  // no page (kernels/host/slab.h). 0: nothing grows.
  int64_t page_bytes() const { return page_bytes_; }
  static constexpr int64_t kListed = 128;
  // Memory of its own, whole pages, that a list of more than kListed pages takes; of fewer 0: the
  // last page, which no other session has, lists them all. Doubles as they double.
  int64_t ListBytes(int64_t pages) const;
  bool AllInPages() const { return block_bytes_ == 0 && page_bytes_ > 0; }
  int64_t list_offset() const { return list_offset_; }
  int64_t max_position() const { return max_position_; }
  int64_t Pages(int64_t tokens) const { return page_bytes_ == 0 ? 0 : PagesOf(tokens); }

  // Device bytes of a state after `tokens` tokens; kMostBytes where that is more, whatever the
  // context's limit.
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
