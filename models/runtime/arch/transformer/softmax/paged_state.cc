#include "models/runtime/arch/transformer/softmax/paged_state.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "models/runtime/arch/transformer/section_checks.h"
#include "models/runtime/arch/transformer/softmax/sections.h"
#include "models/runtime/arch/transformer/synthetic_values.h"

namespace tvq::transformer {

int64_t PageLayout::Bytes(int64_t tokens) const {
  const int64_t pages = Pages(tokens);
  return pages <= kMostBytes / page_bytes() ? pages * page_bytes() : kMostBytes;
}

std::vector<SectionInfo> PageLayout::Sections(int64_t position) const {
  std::vector<SectionInfo> all;
  for (int64_t l = 0; l < layers; ++l) {
    const auto sections = CacheSections(shape, l, position);
    all.insert(all.end(), sections.begin(), sections.end());
  }
  return all;
}

absl::Status PagedState::Resize(int64_t tokens) {
  if (tokens > layout_.max_position) {
    return absl::InvalidArgumentError(
        absl::StrCat("a context of ", tokens, " tokens, must have at most ", layout_.max_position));
  }
  const auto wanted = static_cast<size_t>(PageLayout::Pages(tokens));
  const size_t before = pages_.size();
  absl::Status s = TakePages(wanted);
  if (s.ok() && wanted > before) s = ListPages(before);
  if (!s.ok()) pages_.resize(before);
  return s;
}

absl::Status PagedState::TakePages(size_t count) {
  if (pages_.size() > count) pages_.resize(count);
  while (pages_.size() < count) {
    absl::StatusOr<Device::Reusable> page = AllocateState(device_, layout_.page_bytes(), memory_);
    if (!page.ok()) return page.status();
    pages_.push_back(std::move(page->memory));
  }
  return absl::OkStatus();
}

absl::Status PagedState::ListPages(size_t first) {
  constexpr auto kListed = static_cast<size_t>(KeyValuePages::kListed);
  std::vector<uintptr_t> addresses;
  absl::Status s;
  for (size_t next = first; s.ok() && next < pages_.size(); next += addresses.size()) {
    const size_t list = next / kListed, end = std::min(pages_.size(), (list + 1) * kListed);
    addresses.clear();
    for (size_t i = next; i < end; ++i) {
      addresses.push_back(reinterpret_cast<uintptr_t>(pages_[i].data()));
    }
    s = device_.CopyFromHost(ListOf(list) + next % kListed * sizeof(uintptr_t), addresses.data(),
                             addresses.size() * sizeof(uintptr_t));
  }
  return s;
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
  const auto bytes = static_cast<size_t>(layout_.list_offset());  // each has its own lists
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
