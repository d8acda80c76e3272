// Any bytes as a snapshot: what is accepted is a session that can be.

#include "server/sessions/record/session_id.h"
#include "server/sessions/snapshot/snapshot.h"
#include "tests/fuzz/reseal.h"
#include "tests/fuzz/tiny_state.h"

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max, unsigned seed) {
  return tvq::fuzz::MutateAndReseal(data, size, max, seed);
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const tvq::ModelInfo info = tvq::fuzz::TinyInfo();
  const std::span<const std::byte> bytes = std::as_bytes(std::span(data, size));
  tvq::fuzz::InputSource scanned(bytes);
  const absl::StatusOr<tvq::SnapshotInfo> seen = tvq::ReadSnapshotInfo(&scanned);
  tvq::fuzz::InputSource source(bytes);
  absl::StatusOr<tvq::SnapshotHead> head = tvq::ReadSnapshotHead(&source);
  if (!head.ok()) return 0;
  if (!seen.ok() || seen->record.id != head->record.id) std::abort();
  const tvq::SessionRecord& record = head->record;
  if (!tvq::IsSessionId(record.id) || record.version < 1 || record.position < 0) std::abort();
  auto image = tvq::OpenSnapshotState(*head, &source, info);
  if (!image.ok()) return 0;
  for (int32_t id : head->transcript) {
    if (id < 0 || id >= info.config.vocab_size) std::abort();
  }
  const std::unique_ptr<tvq::State> state = tvq::fuzz::TinyState();
  if (!image->ReadState(state.get()).ok() && state->position() != 0) std::abort();
  return 0;
}
