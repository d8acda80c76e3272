#include "models/runtime/arch/transformer/constant_state.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "absl/strings/str_cat.h"

namespace tvq::transformer {

absl::StatusOr<std::unique_ptr<ConstantState>> ConstantState::Create(Device& device,
                                                                     const StateLayout& layout,
                                                                     StateMemory memory) {
  absl::StatusOr<Device::Reusable> block = AllocateState(device, layout.bytes(), memory);
  if (!block.ok()) return block.status();
  return std::unique_ptr<ConstantState>(new ConstantState(device, layout, *std::move(block)));
}

absl::Status ConstantState::Extend(int64_t) {
  if (written_) return absl::OkStatus();
  written_ = true;
  return device_.Zero(memory_.data(), memory_.bytes());
}

std::byte* ConstantState::Layer(int64_t layer) const {
  if (!written_) std::abort();
  return LayerMemory(layer);
}

absl::Status ConstantState::CopyFrom(const State& other) {
  const auto* source = dynamic_cast<const ConstantState*>(&other);
  if (source == nullptr || &source->layout_ != &layout_) {
    return absl::FailedPreconditionError("the state to copy belongs to another model");
  }
  if (!source->written_) return Reset();
  position_ = source->position_;
  written_ = true;
  return device_.CopyWithin(memory_.data(), source->memory_.data(), memory_.bytes());
}

absl::Status ConstantState::Reset() {
  position_ = 0;
  written_ = false;
  return absl::OkStatus();
}

std::vector<SectionInfo> ConstantState::Sections() const { return layout_.AllSections(position_); }

absl::Status ConstantState::VisitSectionsFrom(size_t first, const SectionVisitor& visit) const {
  std::vector<std::byte> host(static_cast<size_t>(layout_.layer_bytes()));
  auto skipped = static_cast<int64_t>(first);
  for (int64_t l = 0; l < layout_.layers(); ++l) {
    const auto sections = static_cast<int64_t>(layout_.Sections(l, position_).size());
    if (skipped < sections) {
      absl::Status s;
      if (written_) s = device_.CopyToHost(host.data(), LayerMemory(l), host.size());
      if (s.ok()) s = layout_.Visit(l, position_, host.data(), skipped, visit);
      if (!s.ok()) return s;
    }
    skipped = std::max<int64_t>(0, skipped - sections);
  }
  return absl::OkStatus();
}

absl::Status ConstantState::Load(int64_t position, const SectionReader& read) {
  if (absl::Status s = CheckPosition(position); !s.ok()) return s;
  std::vector<std::byte> host(static_cast<size_t>(layout_.layer_bytes()));
  for (int64_t l = 0; l < layout_.layers(); ++l) {
    std::fill(host.begin(), host.end(), std::byte{0});
    absl::Status s = layout_.Load(l, position, read, host.data());
    if (s.ok()) s = device_.CopyFromHost(LayerMemory(l), host.data(), host.size());
    if (s.ok()) continue;
    if (absl::Status reset = Reset(); !reset.ok()) return reset;
    return s;
  }
  position_ = position;
  written_ = true;
  return absl::OkStatus();
}

absl::Status ConstantState::Synthesize(int64_t position, uint64_t seed) {
  if (absl::Status s = CheckPosition(position); !s.ok()) return s;
  std::vector<std::byte> host(memory_.bytes());
  SyntheticValues values(seed);
  for (int64_t l = 0; l < layout_.layers(); ++l) {
    layout_.Synthesize(position, values, host.data() + l * layout_.layer_bytes());
  }
  position_ = position;
  written_ = true;
  return device_.CopyFromHost(memory_.data(), host.data(), host.size());
}

}  // namespace tvq::transformer
