// Snapshots of whole sessions, taken and read by a test.
#ifndef TVQ_TESTS_SERVER_SESSIONS_TRANSFERS_H_
#define TVQ_TESTS_SERVER_SESSIONS_TRANSFERS_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "tests/server/sessions/store_harness.h"

namespace tvq {

inline std::string Drain(SnapshotStream& stream, int64_t chunk = 100) {
  std::string all;
  for (;;) {
    const auto next = stream.Next(chunk);
    EXPECT_TRUE(next.ok()) << next.status();
    if (!next.ok() || next->empty()) break;
    EXPECT_LE(static_cast<int64_t>(next->size()), chunk);
    all += *next;
  }
  EXPECT_EQ(static_cast<int64_t>(all.size()), stream.total_bytes());
  return all;
}

inline std::string Export(StoreHarness& h, const SessionCall& call) {
  const auto stream = h.store->Export(call, {});
  EXPECT_TRUE(stream.ok()) << stream.status();
  return stream.ok() ? Drain(**stream) : "";
}

inline std::unique_ptr<SnapshotUpload> Upload(StoreHarness& h, std::string_view bytes) {
  auto upload = h.store->NewUpload();
  for (size_t at = 0; at < bytes.size(); at += 333) {
    const std::string_view piece = bytes.substr(at, 333);
    EXPECT_TRUE(upload->Add({piece.data(), piece.size()}).ok());
  }
  return upload;
}

inline absl::StatusOr<SessionView> Import(StoreHarness& h, std::string_view bytes,
                                          const CreateOptions& options = {}) {
  return h.store->Import("", options, Upload(h, bytes));
}

}  // namespace tvq

#endif  // TVQ_TESTS_SERVER_SESSIONS_TRANSFERS_H_
