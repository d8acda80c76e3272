// Snapshots for tests of durable tiers, whose states are bytes that no model made.
#ifndef TVQ_TESTS_SERVER_SESSIONS_STORED_BYTES_H_
#define TVQ_TESTS_SERVER_SESSIONS_STORED_BYTES_H_

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/sessions/durable/durable_tier.h"
#include "server/sessions/snapshot/snapshot.h"
#include "tests/server/sessions/byte_vector.h"

namespace tvq::fixtures {

// The n-th id.
inline std::string TestId(int n) {
  const std::string id = std::to_string(n);
  return absl::StrCat(std::string(32 - id.size(), 'a'), id);
}

inline SessionRecord TestRecord(const std::string& id, int64_t version,
                                const std::vector<int64_t>& marks = {}) {
  SessionRecord record;
  record.id = id;
  record.model = "model";
  record.version = version;
  record.created = record.last_used = absl::FromUnixSeconds(1'700'000'000 + version);
  for (int64_t mark : marks) record.marks.push_back({absl::StrCat("mark ", mark), mark, 0});
  return record;
}

// The snapshot of a version; its state is `size` bytes that tell session and version.
inline Bytes TestSnapshot(const SessionRecord& record, int64_t version, size_t size = 1000) {
  SnapshotHead head;
  head.record = record;
  head.version = version;
  head.state_bytes = static_cast<int64_t>(size);
  Bytes bytes;
  (void)WriteSnapshotHead(head, AppendTo(&bytes));
  const std::string text = absl::StrCat(record.id, " ", version, ";");
  for (size_t i = 0; i < size; ++i) bytes.push_back(static_cast<std::byte>(text[i % text.size()]));
  return bytes;
}

inline absl::Status PutBytes(DurableTier& tier, const SessionRecord& record, int64_t version,
                             const Bytes& bytes) {
  return tier.Put(record, version, std::ssize(bytes), [&](const ByteSink& sink) {
    const auto half = static_cast<std::ptrdiff_t>(bytes.size() / 2);
    absl::Status s = sink(std::span(bytes.begin(), bytes.begin() + half));
    return s.ok() ? sink(std::span(bytes.begin() + half, bytes.end())) : s;
  });
}

inline absl::Status PutVersion(DurableTier& tier, const SessionRecord& record, int64_t version,
                               size_t size = 1000) {
  return PutBytes(tier, record, version, TestSnapshot(record, version, size));
}

inline absl::Status PutNewest(DurableTier& tier, const SessionRecord& record, size_t size = 1000) {
  return PutVersion(tier, record, record.version, size);
}

// Whether the tier gives the version, byte for byte, with the state that TestSnapshot made; a
// status that is neither OK nor NOT_FOUND for a wrong one.
inline absl::Status CheckVersion(DurableTier& tier, const std::string& id, int64_t version,
                                 size_t size = 1000) {
  auto source = tier.Get(id, version);
  if (!source.ok()) return source.status();
  absl::StatusOr<SnapshotHead> head = ReadSnapshotHead(source->get());
  if (!head.ok()) return head.status();
  Bytes state(static_cast<size_t>(head->state_bytes));
  if (absl::Status s = (*source)->Read(state); !s.ok()) return s;
  const Bytes expected = TestSnapshot(head->record, version, size);
  if (state.size() != size || head->version != version || head->record.id != id ||
      !std::equal(state.rbegin(), state.rend(), expected.rbegin())) {
    return absl::DataLossError("another snapshot than was put");
  }
  std::byte more;
  if ((*source)->Read({&more, 1}).ok()) return absl::DataLossError("bytes behind the snapshot");
  return absl::OkStatus();
}

}  // namespace tvq::fixtures

#endif  // TVQ_TESTS_SERVER_SESSIONS_STORED_BYTES_H_
