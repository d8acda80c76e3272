#include "models/runtime/stack/session_state.h"

#include <cstdlib>
#include <cstring>
#include <span>

#include "absl/strings/str_cat.h"
#include "models/runtime/stack/section_checks.h"

namespace tvq {
namespace {

// Far above any real position, and small enough that sums of positions do not overflow.
constexpr int64_t kLargestPosition = int64_t{1} << 62;

// A copy of a layer's memory in host memory: its part of the block, and of every page.
struct HostLayer {
  std::vector<std::byte> block, pages;

  // Where part `i` begins. A part in pages begins in the first page; null if there are no pages.
  std::byte* At(const StateLayout::Layer& layer, size_t i) {
    if (!layer.parts->parts()[i].in_pages()) return block.data() + layer.offsets[i];
    return pages.empty() ? nullptr : pages.data() + (layer.offsets[i] - layer.page_first);
  }
};

}  // namespace

absl::Status CheckPosition(int64_t position) {
  if (position >= 0 && position <= kLargestPosition) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("position is ", position, ", must be 0 to ", kLargestPosition));
}

absl::StatusOr<std::unique_ptr<SessionState>> SessionState::Create(Device& device,
                                                                   const StateLayout& layout,
                                                                   StateReuse reuse) {
  Device::Reusable block;
  if (layout.block_bytes() > 0) {
    absl::StatusOr<Device::Reusable> allocated = AllocateState(device, layout.block_bytes(), reuse);
    if (!allocated.ok()) return allocated.status();
    block = *std::move(allocated);
  }
  return std::unique_ptr<SessionState>(new SessionState(device, layout, std::move(block), reuse));
}

absl::Status SessionState::Extend(int64_t tokens) {
  if (!written_) {
    if (absl::Status s = device_.Zero(block_.data(), block_.bytes()); !s.ok()) return s;
    written_ = true;
  }
  absl::Status s = pages_.Resize(position_ + tokens);
  return s.ok() ? pages_.List(position_) : s;
}

PartMemory SessionState::Parts(size_t l) const {
  if (!written_) std::abort();
  const StateLayout::Layer& layer = layout_.layers()[l];
  return {BlockOf(layer), layer.offsets, pages_.view()};
}

absl::Status SessionState::Copy(const State& other, std::optional<int64_t> tokens) {
  const auto* source = dynamic_cast<const SessionState*>(&other);
  if (source == nullptr || &source->layout_ != &layout_) {
    return absl::FailedPreconditionError("the state to copy belongs to another model");
  }
  const int64_t position = tokens.value_or(source->position_);
  if (tokens && (!layout_.AllInPages() || position < 0 || position > source->position_)) {
    return absl::InvalidArgumentError(
        absl::StrCat("a state at position ", source->position_, " cannot be cut at ", position));
  }
  if (!source->written_) return Reset();
  absl::Status s = pages_.CopyFirst(source->pages_, position);
  if (s.ok() && block_.bytes() > 0) {
    s = device_.CopyWithin(block_.data(), source->block_.data(), block_.bytes());
  }
  position_ = position;
  written_ = true;
  if (s.ok()) return s;
  s.Update(Reset());
  return s;
}

absl::Status SessionState::Reset() {
  position_ = 0;
  written_ = block_.bytes() == 0;
  return pages_.Resize(0);
}

absl::Status SessionState::PagesToHost(const StateLayout::Layer& layer,
                                       std::vector<std::byte>& host) const {
  const auto bytes = static_cast<size_t>(layer.page_bytes);
  const auto pages = bytes == 0 ? 0 : static_cast<size_t>(layout_.Pages(position_));
  host.resize(pages * bytes);
  absl::Status s;
  for (size_t p = 0; s.ok() && p < pages; ++p) {
    s = device_.CopyToHost(host.data() + p * bytes, pages_.page(p) + layer.page_first, bytes);
  }
  return s;
}

absl::Status SessionState::PagesFromHost(const StateLayout::Layer& layer,
                                         const std::vector<std::byte>& host) {
  const auto bytes = static_cast<size_t>(layer.page_bytes);
  absl::Status s;
  for (size_t p = 0; s.ok() && bytes > 0 && p < pages_.size(); ++p) {
    s = device_.CopyFromHost(pages_.page(p) + layer.page_first, host.data() + p * bytes, bytes);
  }
  return s;
}

absl::Status SessionState::VisitSectionsFrom(size_t first, const SectionVisitor& visit) const {
  for (size_t l = 0; l < layout_.layers().size(); ++l) {
    const size_t sections = layout_.LayerSections(l, position_).size();
    if (first < sections) {
      if (absl::Status s = VisitLayer(l, first, visit); !s.ok()) return s;
    }
    first -= std::min(first, sections);
  }
  return absl::OkStatus();
}

absl::Status SessionState::VisitLayer(size_t l, size_t skipped, const SectionVisitor& visit) const {
  const StateLayout::Layer& layer = layout_.layers()[l];
  const std::vector<SectionInfo> sections = layout_.LayerSections(l, position_);
  HostLayer host;
  host.block.resize(static_cast<size_t>(layer.block_bytes));
  absl::Status s = PagesToHost(layer, host.pages);
  if (s.ok() && written_ && layer.block_bytes > 0) {
    s = device_.CopyToHost(host.block.data(), BlockOf(layer), host.block.size());
  }
  std::vector<std::byte> ordered;
  for (size_t i = skipped; s.ok() && i < sections.size(); ++i) {
    const StatePart& part = layer.parts->parts()[i];
    const std::byte* const memory = host.At(layer, i);
    const auto bytes = static_cast<size_t>(sections[i].bytes);
    if (part.growth == Growth::kConstant) {
      s = visit(sections[i], {memory, bytes});
      continue;
    }
    ordered.resize(bytes);
    ForEachRun(part, position_, layer.page_bytes, [&](int64_t to, int64_t from, int64_t count) {
      std::memcpy(ordered.data() + to, memory + from, static_cast<size_t>(count));
    });
    s = visit(sections[i], ordered);
  }
  return s;
}

absl::Status SessionState::Load(int64_t position, const SectionReader& read) {
  absl::Status s = TryLoad(position, read);
  if (s.ok()) return s;
  s.Update(Reset());
  return s;
}

absl::Status SessionState::TryLoad(int64_t position, const SectionReader& read) {
  if (absl::Status s = CheckPosition(position); !s.ok()) return s;
  absl::Status resized = pages_.Resize(0);  // other states may share the pages
  if (resized.ok()) resized = pages_.Resize(position);
  if (!resized.ok()) return resized;
  for (size_t l = 0; l < layout_.layers().size(); ++l) {
    if (absl::Status s = LoadLayer(l, position, read); !s.ok()) return s;
  }
  position_ = position;
  written_ = true;
  return absl::OkStatus();
}

absl::Status SessionState::LoadLayer(size_t l, int64_t position, const SectionReader& read) {
  const StateLayout::Layer& layer = layout_.layers()[l];
  const std::vector<SectionInfo> sections = layout_.LayerSections(l, position);
  HostLayer host;
  host.block.resize(static_cast<size_t>(layer.block_bytes));
  host.pages.resize(pages_.size() * static_cast<size_t>(layer.page_bytes));
  std::vector<std::byte> ordered;
  LayerParts::Read all{sections, {}, {host.block.data(), layer.offsets, {}}, position};
  for (size_t i = 0; i < sections.size(); ++i) {
    const StatePart& part = layer.parts->parts()[i];
    std::byte* const memory = host.At(layer, i);
    std::span<std::byte> to{memory, static_cast<size_t>(sections[i].bytes)};
    if (part.growth != Growth::kConstant) {
      ordered.resize(to.size());
      to = ordered;
    }
    all.last = to;
    absl::Status s = read(sections[i], to);
    if (s.ok()) s = CheckFinite(sections[i], part.element, to.data());
    if (s.ok()) s = layer.parts->Check(i, all);
    if (!s.ok()) return s;
    if (part.growth == Growth::kConstant) continue;
    ForEachRun(part, position, layer.page_bytes, [&](int64_t from, int64_t at, int64_t count) {
      std::memcpy(memory + at, ordered.data() + from, static_cast<size_t>(count));
    });
  }
  layer.parts->Derive(all.memory);
  absl::Status s = PagesFromHost(layer, host.pages);
  if (s.ok() && layer.block_bytes > 0) {
    s = device_.CopyFromHost(BlockOf(layer), host.block.data(), host.block.size());
  }
  return s;
}

}  // namespace tvq
