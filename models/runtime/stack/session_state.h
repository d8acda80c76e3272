// A session's state: the parts of all layers.
#ifndef TVQ_MODELS_RUNTIME_STACK_SESSION_STATE_H_
#define TVQ_MODELS_RUNTIME_STACK_SESSION_STATE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/device/device.h"
#include "models/runtime/stack/layer_parts.h"
#include "models/runtime/stack/page_list.h"
#include "models/runtime/stack/state_layout.h"
#include "models/runtime/stack/state_reuse.h"
#include "models/runtime/state.h"

namespace tvq {

class SessionState : public State {
 public:
  // All zero, at position 0. Device and layout must outlive it. RESOURCE_EXHAUSTED.
  static absl::StatusOr<std::unique_ptr<SessionState>> Create(
      Device& device, const StateLayout& layout, StateReuse reuse = StateReuse::kReusable);

  int64_t position() const override { return position_; }
  int64_t bytes() const override {
    const auto pages = static_cast<int64_t>(pages_.size());
    return layout_.block_bytes() + pages * layout_.page_bytes() + layout_.ListBytes(pages);
  }
  int64_t sealed_bytes() const override {
    return static_cast<int64_t>(pages_.sealed()) * layout_.page_bytes();
  }
  void Seal(const Pay& pay) override { pages_.Seal(position_, pay); }
  absl::Status CopyFrom(const State& other) override { return Copy(other, std::nullopt); }
  absl::Status CopyFirst(const State& other, int64_t tokens) override {
    return Copy(other, tokens);
  }
  absl::Status Reset() override;
  std::vector<SectionInfo> Sections() const override { return layout_.Sections(position_); }
  absl::Status VisitSectionsFrom(size_t first, const SectionVisitor& visit) const override;
  absl::Status Load(int64_t position, const SectionReader& read) override;

  // Makes memory ready for the next `tokens` tokens. INVALID_ARGUMENT if the context would be
  // longer than it may be, RESOURCE_EXHAUSTED if the memory had to grow and could not.
  absl::Status Extend(int64_t tokens);
  // Moves the position when the tokens have been fed.
  void Advance(int64_t tokens) { position_ += tokens; }
  // Moves the position back when the last token has been taken back.
  void Retreat() { --position_; }

  // Device memory of a layer's parts. Must not be called before Extend: the memory might still hold
  // what another session left.
  PartMemory Parts(size_t layer) const;

 private:
  SessionState(Device& device, const StateLayout& layout, Device::Reusable block, StateReuse reuse)
      : device_(device),
        layout_(layout),
        block_(std::move(block.memory)),
        written_(block.zeroed),
        pages_(device, layout, reuse) {}

  std::byte* BlockOf(const StateLayout::Layer& layer) const {
    return block_.as<std::byte>() + layer.block_first;
  }
  // CopyFrom if `tokens` is unset, else CopyFirst.
  absl::Status Copy(const State& other, std::optional<int64_t> tokens);
  // Load without the Reset after an error.
  absl::Status TryLoad(int64_t position, const SectionReader& read);
  absl::Status LoadLayer(size_t layer, int64_t position, const SectionReader& read);
  absl::Status VisitLayer(size_t layer, size_t skipped, const SectionVisitor& visit) const;
  // Copy one layer's part of every page, one behind the other, to or from host memory.
  absl::Status PagesToHost(const StateLayout::Layer& layer, std::vector<std::byte>& host) const;
  absl::Status PagesFromHost(const StateLayout::Layer& layer, const std::vector<std::byte>& host);

  Device& device_;
  const StateLayout& layout_;
  int64_t position_ = 0;
  Buffer block_;
  // Whether the block holds this state. If not, this state is all zero, but the block still holds
  // what another state left there, so nothing may read it. Most states begin as copies, so that the
  // block need not be zeroed.
  bool written_;
  PageList pages_;  // at least those that the positions need
};

// INVALID_ARGUMENT unless a state may be at this position.
absl::Status CheckPosition(int64_t position);

}  // namespace tvq

#endif  // TVQ_MODELS_RUNTIME_STACK_SESSION_STATE_H_
