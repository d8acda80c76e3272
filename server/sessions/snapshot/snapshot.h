// A session as one stream of bytes, for files, the durable tier and migration
// (docs/snapshot-format.md): its record, transcript and outcomes, then a state image.
#ifndef TVQ_SERVER_SESSIONS_SNAPSHOT_SNAPSHOT_H_
#define TVQ_SERVER_SESSIONS_SNAPSHOT_SNAPSHOT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "models/runtime/model.h"
#include "server/sessions/record/session_record.h"
#include "server/sessions/snapshot/byte_stream.h"
#include "server/sessions/snapshot/state_image.h"

namespace tvq {

// What a call with an idempotency key was answered.
struct Outcome {
  std::string idempotency_key;
  std::string reply;  // opaque
};

// All of a snapshot but the state.
struct SnapshotHead {
  SessionRecord record;
  int64_t version = 0;  // whose state follows: the record's own or that of one of its marks
  // Of that version: as many ids as it has tokens, or none if the record has no transcript.
  std::vector<int32_t> transcript;
  std::vector<Outcome> outcomes;
  int64_t state_bytes = 0;  // of the state image that follows, StateImageBytes
  int64_t read_bytes = 0;   // of the head as ReadSnapshotHead found it; nothing that is written
};

// Bytes of the head as it is written, which may differ from those it was read from; the snapshot
// has state_bytes more.
int64_t SnapshotHeadBytes(const SnapshotHead& head);

// The state image is to be written behind it, by WriteStateImage or from a blob that holds one.
// RESOURCE_EXHAUSTED for a record too large for the format (about 10,000 marks).
absl::Status WriteSnapshotHead(const SnapshotHead& head, const ByteSink& sink);

// What the first bytes of a snapshot tell, to look through many.
struct SnapshotInfo {
  SessionRecord record;
  int64_t version = 0;
  int64_t total_bytes = 0;  // of the whole snapshot
};
absl::StatusOr<SnapshotInfo> ReadSnapshotInfo(ByteSource* source);

// Reads what is not trusted, up to the state image. Errors as StateImageReader's. Memory
// is taken as the bytes come. Does not see what follows the snapshot: compare read_bytes +
// state_bytes with the size of the stream.
absl::StatusOr<SnapshotHead> ReadSnapshotHead(ByteSource* source);

// Opens the state image behind `head`, and checks that the two fit each other and the model.
absl::StatusOr<StateImageReader> OpenSnapshotState(const SnapshotHead& head, ByteSource* source,
                                                   const ModelInfo& model);

}  // namespace tvq

#endif  // TVQ_SERVER_SESSIONS_SNAPSHOT_SNAPSHOT_H_
