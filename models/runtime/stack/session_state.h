// A session's state: the parts that every layer keeps.
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

  // Makes the memory ready that the next `tokens` tokens are fed to. INVALID_ARGUMENT where they
  // are more than a context may have, RESOURCE_EXHAUSTED where it had to grow and could not.
  absl::Status Extend(int64_t tokens);
  // They were fed.
  void Advance(int64_t tokens) { position_ += tokens; }
  // The last one was taken back.
  void Retreat() { --position_; }

  // Device memory of a layer's parts. Not before Extend: it would show another session's past.
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
  // CopyFrom, or CopyFirst of so many.
  absl::Status Copy(const State& other, std::optional<int64_t> tokens);
  // Load, but for what happens after an error.
  absl::Status TryLoad(int64_t position, const SectionReader& read);
  absl::Status LoadLayer(size_t layer, int64_t position, const SectionReader& read);
  absl::Status VisitLayer(size_t layer, size_t skipped, const SectionVisitor& visit) const;
  // One layer's part of every page of the positions there are, one behind the other.
  absl::Status PagesToHost(const StateLayout::Layer& layer, std::vector<std::byte>& host) const;
  absl::Status PagesFromHost(const StateLayout::Layer& layer, const std::vector<std::byte>& host);

  Device& device_;
  const StateLayout& layout_;
  int64_t position_ = 0;
  Buffer block_;
  // Before, the block is as some state left it, nothing reads it, and this state's is all zero.
  // Most states begin as copies and never need the zeros.
  bool written_;
  PageList pages_;  // at least those of the positions there are
};

// INVALID_ARGUMENT unless a state may have it.
absl::Status CheckPosition(int64_t position);

}  // namespace tvq

#endif  // TVQ_MODELS_RUNTIME_STACK_SESSION_STATE_H_
