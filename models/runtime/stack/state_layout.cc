#include "models/runtime/stack/state_layout.h"

#include <algorithm>
#include <bit>
#include <iterator>
#include <utility>

namespace tvq {

StateLayout::StateLayout(const std::vector<Kept>& layers, int64_t max_position)
    : max_position_(max_position) {
  for (const Kept& kept : layers) {
    Layer layer;
    layer.prefix = kept.prefix;
    layer.parts = kept.parts;
    layer.block_first = block_bytes_;
    layer.page_first = list_offset_;
    for (const StatePart& part : kept.parts->parts()) {
      int64_t& bytes = part.in_pages() ? layer.page_bytes : layer.block_bytes;
      layer.offsets.push_back(bytes + (part.in_pages() ? layer.page_first : 0));
      bytes += Aligned(part.bytes());
    }
    block_bytes_ += layer.block_bytes;
    list_offset_ += layer.page_bytes;
    layers_.push_back(std::move(layer));
  }
  if (list_offset_ == 0) return;
  page_bytes_ = list_offset_ + Aligned(8 * std::min(PagesOf(max_position), kListed));
}

int64_t StateLayout::Bytes(int64_t tokens) const {
  const int64_t pages = Pages(tokens);
  if (pages == 0) return block_bytes_;
  // A list takes at most as many bytes as the pages in it, hence the factor 2.
  if (pages > (kMostBytes - block_bytes_) / (2 * page_bytes_)) return kMostBytes;
  return block_bytes_ + pages * page_bytes_ + ListBytes(pages);
}

int64_t StateLayout::ListBytes(int64_t pages) const {
  if (pages <= kListed) return 0;
  const int64_t bytes = pages * int64_t{sizeof(void*)};
  const auto whole = static_cast<uint64_t>((bytes + page_bytes_ - 1) / page_bytes_);
  return static_cast<int64_t>(std::bit_ceil(whole)) * page_bytes_;
}

std::vector<SectionInfo> StateLayout::LayerSections(size_t layer, int64_t position) const {
  std::vector<SectionInfo> sections;
  for (const StatePart& part : layers_[layer].parts->parts()) {
    if (part.derived) continue;
    sections.push_back(MakeSection(layers_[layer].prefix + part.name, SizeOf(part.element),
                                   part.ShapeAt(position)));
  }
  return sections;
}

std::vector<SectionInfo> StateLayout::Sections(int64_t position) const {
  std::vector<SectionInfo> all;
  for (size_t l = 0; l < layers_.size(); ++l) {
    std::vector<SectionInfo> sections = LayerSections(l, position);
    std::move(sections.begin(), sections.end(), std::back_inserter(all));
  }
  return all;
}

}  // namespace tvq
