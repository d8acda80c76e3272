// A session store that tests script.
#ifndef TVQ_TESTS_SERVER_RPC_MOCK_SESSION_STORE_H_
#define TVQ_TESTS_SERVER_RPC_MOCK_SESSION_STORE_H_

#include <gmock/gmock.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "server/sessions/session_store.h"

namespace tvq {

// Of the session that tests call.
inline constexpr char kId[] = "0123456789abcdef0123456789abcdef";

// Takes what comes and keeps nothing.
class NoUpload : public SnapshotUpload {
 public:
  absl::Status Add(std::span<const char>) override { return absl::OkStatus(); }
};

// A snapshot of zeros.
class Zeros : public SnapshotStream {
 public:
  Zeros(int64_t bytes, int64_t kept_bytes) : bytes_(bytes), kept_(kept_bytes), left_(bytes) {}
  int64_t total_bytes() const override { return bytes_; }
  int64_t kept_bytes() const override { return kept_; }
  absl::StatusOr<std::string> Next(int64_t max) override {
    const int64_t count = std::min(max, left_);
    left_ -= count;
    return std::string(static_cast<size_t>(count), '\0');
  }

 private:
  const int64_t bytes_, kept_;
  int64_t left_;
};

inline absl::StatusOr<std::unique_ptr<SnapshotStream>> NewZeros(int64_t bytes,
                                                                int64_t kept_bytes = 0) {
  return std::make_unique<Zeros>(bytes, kept_bytes);
}

class MockSessionStore : public SessionStore {
 public:
  using Views = std::vector<SessionView>;
  using Bytes = std::unique_ptr<SnapshotStream>;
  using Upload = std::unique_ptr<SnapshotUpload>;

  MOCK_METHOD(absl::StatusOr<SessionView>, Create, (const std::string&, const CreateOptions&),
              (override));
  MOCK_METHOD(absl::StatusOr<SessionView>, Get, (const std::string&, const std::string&),
              (override));
  MOCK_METHOD(absl::StatusOr<SessionTranscript>, Transcript,
              (const std::string&, const std::string&), (override));
  MOCK_METHOD(absl::StatusOr<SessionPage>, List,
              (const std::string&, const ListFilter&, int64_t, const std::string&), (override));
  MOCK_METHOD(absl::StatusOr<Views>, Fork, (const SessionCall&, const ForkOptions&), (override));
  MOCK_METHOD(absl::StatusOr<SessionView>, Mark, (const SessionCall&, const std::string&),
              (override));
  MOCK_METHOD(absl::StatusOr<SessionView>, Unmark, (const SessionCall&, const std::string&),
              (override));
  MOCK_METHOD(absl::StatusOr<SessionView>, Rewind, (const SessionCall&, const std::string&),
              (override));
  MOCK_METHOD(absl::StatusOr<SessionView>, Save, (const SessionCall&), (override));
  MOCK_METHOD(absl::Status, Delete, (const SessionCall&), (override));
  MOCK_METHOD(absl::StatusOr<Bytes>, Export, (const SessionCall&, const ExportRoom&), (override));
  MOCK_METHOD(int64_t, max_upload_bytes, (), (const, override));
  MOCK_METHOD(Upload, NewUpload, (), (override));
  MOCK_METHOD(absl::StatusOr<SessionView>, Import,
              (const std::string&, const CreateOptions&, Upload), (override));
  MOCK_METHOD(absl::StatusOr<std::unique_ptr<Lease>>, Acquire, (const SessionCall&), (override));
  MOCK_METHOD(absl::StatusOr<std::optional<StartPoint>>, StartFrom, (const std::string&, Upload),
              (override));
  MOCK_METHOD(absl::StatusOr<Bytes>, ToSnapshot, (const std::string&, Continuation), (override));
  MOCK_METHOD(void, UsePrefixes, (Request*), (override));
  MOCK_METHOD(int64_t, Flush, (SteadyTime), (override));
  MOCK_METHOD(std::vector<SessionRecord>, Records, (), (const, override));
  MOCK_METHOD(void, Leave, (), (override));
  MOCK_METHOD(bool, shares_storage, (), (const, override));
  MOCK_METHOD(SessionStats, stats, (), (const, override));
};

// A lease that says what it did.
class FakeLease : public Lease {
 public:
  struct Log {
    int commits = 0;
    int released = 0;
    int64_t reserved = 0;            // up to which position
    std::vector<int32_t> went_back;  // what GoBack was asked for
    std::string reply;
    std::vector<int32_t> tokens;
  };

  FakeLease(SessionRecord record, Log* log) : record_(std::move(record)), log_(log) {}
  ~FakeLease() override { ++log_->released; }

  const SessionRecord& record() const override { return record_; }
  const std::optional<std::string>& replay() const override { return kept; }
  std::optional<StartPoint> Start() override { return std::nullopt; }
  absl::StatusOr<std::vector<int32_t>> Transcript() const override { return transcript; }
  absl::StatusOr<int64_t> GoBack(std::span<const int32_t> tokens) override {
    log_->went_back.assign(tokens.begin(), tokens.end());
    return 0;
  }
  absl::Status Reserve(int64_t position) override {
    log_->reserved = position;
    return room;
  }
  absl::StatusOr<SessionView> Commit(Continuation next, std::string reply) override {
    ++log_->commits;
    log_->reply = std::move(reply);
    log_->tokens = next.tokens;
    if (!outcome.ok()) return outcome;
    SessionRecord record = record_;
    ++record.version;
    record.position += static_cast<int64_t>(next.tokens.size());
    return SessionView{.record = std::move(record)};
  }

  absl::Status outcome;             // of Commit
  absl::Status room;                // of Reserve
  std::optional<std::string> kept;  // by an earlier call
  std::vector<int32_t> transcript;

 private:
  const SessionRecord record_;
  Log* const log_;
};

}  // namespace tvq

#endif  // TVQ_TESTS_SERVER_RPC_MOCK_SESSION_STORE_H_
