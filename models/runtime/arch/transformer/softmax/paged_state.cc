#include "models/runtime/arch/transformer/softmax/paged_state.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "models/runtime/arch/transformer/section_checks.h"
#include "models/runtime/arch/transformer/softmax/sections.h"
#include "models/runtime/arch/transformer/synthetic_values.h"

namespace tvq::transformer {

absl::StatusOr<std::unique_ptr<PagedState>> PagedState::Create(Device& device,
                                                               const PageLayout& layout,
                                                               StateMemory memory) {
  const int64_t entries = PageLayout::Pages(layout.max_position);
  absl::StatusOr<Device::Reusable> table =
      AllocateState(device, entries * static_cast<int64_t>(sizeof(void*)), memory);
  if (!table.ok()) return table.status();
  return std::unique_ptr<PagedState>(
      new PagedState(device, layout, memory, std::move(table->memory)));
}

absl::Status PagedState::Resize(int64_t tokens) {
  if (tokens > layout_.max_position) {
    return absl::InvalidArgumentError(
        absl::StrCat("a context of ", tokens, " tokens, must have at most ", layout_.max_position));
  }
  const auto wanted = static_cast<size_t>(PageLayout::Pages(tokens));
  if (pages_.size() > wanted) pages_.resize(wanted);
  while (pages_.size() < wanted) {
    absl::StatusOr<Device::Reusable> page = AllocateState(device_, layout_.page_bytes(), memory_);
    if (!page.ok()) return page.status();
    const auto address = reinterpret_cast<uintptr_t>(page->memory.data());
    uintptr_t* const entry = table_.as<uintptr_t>() + pages_.size();
    if (absl::Status s = device_.CopyFromHost(entry, &address, sizeof(address)); !s.ok()) return s;
    pages_.push_back(std::move(page->memory));
  }
  return absl::OkStatus();
}

absl::Status PagedState::Extend(int64_t tokens) { return Resize(position_ + tokens); }

absl::Status PagedState::Reset() {
  position_ = 0;
  pages_.clear();
  return absl::OkStatus();
}

absl::Status PagedState::CopyFrom(const State& other) {
  const auto* source = dynamic_cast<const PagedState*>(&other);
  if (source == nullptr || &source->layout_ != &layout_) {
    return absl::FailedPreconditionError("the state to copy belongs to another model");
  }
  absl::Status s = Resize(source->position_);
  const auto bytes = static_cast<size_t>(layout_.page_bytes());
  for (size_t i = 0; s.ok() && i < pages_.size(); ++i) {
    s = device_.CopyWithin(pages_[i].data(), source->pages_[i].data(), bytes);
  }
  position_ = source->position_;
  if (s.ok()) return s;
  s.Update(Reset());
  return s;
}

absl::Status PagedState::LayerToHost(int64_t layer, std::vector<std::byte>& host) const {
  const auto bytes = static_cast<size_t>(layout_.shape.LayerBytes());
  const auto pages = static_cast<size_t>(PageLayout::Pages(position_));
  host.resize(pages * bytes);
  absl::Status s;
  for (size_t i = 0; s.ok() && i < pages; ++i) {
    const std::byte* from = pages_[i].as<std::byte>() + layout_.LayerOffset(layer);
    s = device_.CopyToHost(host.data() + i * bytes, from, bytes);
  }
  return s;
}

absl::Status PagedState::LayerFromHost(int64_t layer, const std::vector<std::byte>& host) {
  const auto bytes = static_cast<size_t>(layout_.shape.LayerBytes());
  absl::Status s;
  for (size_t i = 0; s.ok() && i < pages_.size(); ++i) {
    std::byte* to = pages_[i].as<std::byte>() + layout_.LayerOffset(layer);
    s = device_.CopyFromHost(to, host.data() + i * bytes, bytes);
  }
  return s;
}

std::vector<SectionInfo> PagedState::Sections() const {
  std::vector<SectionInfo> all;
  for (int64_t l = 0; l < layout_.layers; ++l) {
    const auto sections = CacheSections(layout_.shape, l, position_);
    all.insert(all.end(), sections.begin(), sections.end());
  }
  return all;
}

absl::Status PagedState::VisitSectionsFrom(size_t first, const SectionVisitor& visit) const {
  std::vector<std::byte> host;
  absl::Status s;
  for (auto next = static_cast<int64_t>(first); next < layout_.layers * kCacheSections;) {
    const int64_t layer = next / kCacheSections, skipped = next % kCacheSections;
    s = LayerToHost(layer, host);
    if (s.ok()) s = VisitCache(layout_.shape, layer, position_, host, skipped, visit);
    if (!s.ok()) return s;
    next += kCacheSections - skipped;
  }
  return s;
}

absl::Status PagedState::TryLoad(int64_t position, const SectionReader& read) {
  if (absl::Status s = CheckPosition(position); !s.ok()) return s;
  if (absl::Status s = Resize(position); !s.ok()) return s;
  std::vector<std::byte> host(pages_.size() * static_cast<size_t>(layout_.shape.LayerBytes()));
  for (int64_t l = 0; l < layout_.layers; ++l) {
    absl::Status s = ReadCache(layout_.shape, l, position, read, host);
    if (s.ok()) s = LayerFromHost(l, host);
    if (!s.ok()) return s;
  }
  position_ = position;
  return absl::OkStatus();
}

absl::Status PagedState::Load(int64_t position, const SectionReader& read) {
  absl::Status s = TryLoad(position, read);
  if (s.ok()) return s;
  s.Update(Reset());
  return s;
}

absl::Status PagedState::Synthesize(int64_t position, uint64_t seed) {
  SyntheticValues values(seed);
  const DType dtype = layout_.shape.dtype;
  return Load(position, [&](const SectionInfo& info, std::span<std::byte> out) {
    for (int64_t i = 0; i < info.bytes / info.element_bytes; ++i) {
      values.SetNext(out.data(), dtype, i);
    }
    return absl::OkStatus();
  });
}

}  // namespace tvq::transformer
