#include "models/runtime/families/encoder/encoding_state.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "models/runtime/stack/working_memory.h"

namespace tvq {
namespace {

int64_t RowBytes(int64_t width, int64_t tokens) {
  if (tokens > kMostBytes / (width * static_cast<int64_t>(sizeof(float)))) return kMostBytes;
  return Aligned(tokens * width * static_cast<int64_t>(sizeof(float)));
}

absl::Status NoPast() {
  return absl::UnimplementedError("an encoder reads whole texts: it has no state to go on from");
}

}  // namespace

int64_t EncodingState::Bytes(int64_t width, int64_t collected_bytes, int64_t tokens) {
  return tokens == 0 ? 0 : RowBytes(width, tokens) + collected_bytes;
}

absl::Status EncodingState::Begin(std::span<const int32_t> tokens) {
  if (tokens.empty()) return absl::InvalidArgumentError("a text of no tokens has no vectors");
  const auto count = static_cast<int64_t>(tokens.size());
  absl::StatusOr<Device::Reusable> block =
      AllocateState(device_, Bytes(width_, collected_bytes_, count), reuse_);
  if (!block.ok()) return block.status();
  memory_ = std::move(block->memory);
  tokens_.assign(tokens.begin(), tokens.end());
  done_ = 0;
  return absl::OkStatus();
}

std::byte* EncodingState::collected() const {
  return memory_.as<std::byte>() + RowBytes(width_, length());
}

absl::Status EncodingState::ClearCollected() {
  return device_.Zero(collected(), static_cast<size_t>(collected_bytes_));
}

absl::Status EncodingState::Reset() {
  tokens_.clear();
  memory_ = Buffer();
  done_ = 0;
  return absl::OkStatus();
}

absl::Status EncodingState::CopyFrom(const State& other) {
  const auto* source = dynamic_cast<const EncodingState*>(&other);
  return source == nullptr || !source->tokens_.empty() ? NoPast() : Reset();
}

absl::Status EncodingState::Load(int64_t position, const SectionReader&) {
  if (position == 0) return Reset();
  return absl::InvalidArgumentError(
      absl::StrCat("position is ", position, ", must be 0: an encoder has no state"));
}

}  // namespace tvq
