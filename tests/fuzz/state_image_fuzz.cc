// Any bytes as a state image: what is accepted can be written and read again, and what is refused
// leaves a blank state.

#include "server/sessions/snapshot/state_image.h"
#include "tests/fuzz/reseal.h"
#include "tests/fuzz/tiny_state.h"

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max, unsigned seed) {
  return tvq::fuzz::MutateAndReseal(data, size, max, seed);
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const tvq::ModelInfo info = tvq::fuzz::TinyInfo();
  tvq::fuzz::InputSource source(std::as_bytes(std::span(data, size)));
  auto image = tvq::StateImageReader::Open(&source, info);
  if (!image.ok()) return 0;
  const std::unique_ptr<tvq::State> state = tvq::fuzz::TinyState();
  if (const absl::Status read = image->ReadState(state.get()); !read.ok()) {
    if (state->position() != 0) std::abort();
    return 0;
  }
  const tvq::StateContent content{state.get(), image->pending(), image->logits()};
  if (image->position() != state->position()) std::abort();
  if (!content.pending.empty() && !content.logits.empty()) std::abort();

  std::vector<std::byte> written;
  const absl::Status status =
      tvq::WriteStateImage(info, content, [&](std::span<const std::byte> bytes) {
        written.insert(written.end(), bytes.begin(), bytes.end());
        return absl::OkStatus();
      });
  if (!status.ok()) std::abort();
  tvq::fuzz::InputSource again(written);
  auto second = tvq::StateImageReader::Open(&again, info);
  if (!second.ok() || second->pending() != image->pending()) std::abort();
  if (!second->ReadState(state.get()).ok()) std::abort();
  return 0;
}
