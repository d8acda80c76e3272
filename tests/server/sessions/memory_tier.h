// A durable tier in memory, which outlives the stores that use it, fails when told to, and checks
// what it is asked to keep.
#ifndef TVQ_TESTS_SERVER_SESSIONS_MEMORY_TIER_H_
#define TVQ_TESTS_SERVER_SESSIONS_MEMORY_TIER_H_

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/sessions/durable_tier.h"

namespace tvq {

// What the tier's servers share.
struct MemoryDisk {
  struct Session {
    SessionRecord record;  // the newest whose own state is stored
    bool whole = false;    // there is one
    std::map<int64_t, std::string> versions;
    int64_t epoch = 0;
  };

  // Called at the start of every operation with its name, and of Put once more ("write") when half
  // of the bytes are there; what is not OK is returned instead.
  std::function<absl::Status(std::string_view operation)> fail;

  std::mutex mutex;
  // Guarded by mutex.
  std::map<std::string, Session> sessions;
  int64_t budget = 0;
  int64_t epochs = 0;
  int64_t puts = 0;
  int64_t gets = 0;

  int64_t Bytes() {
    int64_t bytes = 0;
    for (const auto& [id, session] : sessions) {
      for (const auto& [version, data] : session.versions)
        bytes += static_cast<int64_t>(data.size());
    }
    return bytes;
  }
};

class MemoryTier : public DurableTier {
 public:
  explicit MemoryTier(std::shared_ptr<MemoryDisk> disk, bool shared = false)
      : disk_(std::move(disk)), shared_(shared) {}

  absl::Status ForEach(const std::function<void(SessionRecord)>& visit) override {
    if (auto status = Begin("ForEach"); !status.ok()) return status;
    std::vector<SessionRecord> records;
    {
      const std::lock_guard lock(disk_->mutex);
      for (const auto& [id, session] : disk_->sessions) {
        if (session.whole) records.push_back(session.record);
      }
    }
    for (SessionRecord& record : records) visit(std::move(record));
    return absl::OkStatus();
  }

  absl::StatusOr<SessionRecord> Find(const std::string& id) override {
    if (auto status = Begin("Find"); !status.ok()) return status;
    const std::lock_guard lock(disk_->mutex);
    const auto found = disk_->sessions.find(id);
    if (found == disk_->sessions.end() || !found->second.whole) {
      return absl::NotFoundError("not stored");
    }
    return found->second.record;
  }

  absl::Status Put(const SessionRecord& record, int64_t version, int64_t bytes,
                   const std::function<absl::Status(const ByteSink&)>& write) override {
    if (auto status = Begin("Put"); !status.ok()) return status;
    std::set<int64_t> named{record.version};
    for (const MarkRecord& mark : record.marks) named.insert(mark.version);
    EXPECT_TRUE(named.contains(version)) << "a version that the record does not name";
    std::string data;
    bool failed = false;
    auto written = write([&](std::span<const std::byte> piece) {
      data.append(reinterpret_cast<const char*>(piece.data()), piece.size());
      if (!failed && static_cast<int64_t>(data.size()) > bytes / 2) {
        failed = true;
        return Begin("write");
      }
      return absl::OkStatus();
    });
    if (!written.ok()) return written;
    EXPECT_EQ(static_cast<int64_t>(data.size()), bytes) << "other bytes than announced";
    const std::lock_guard lock(disk_->mutex);
    MemoryDisk::Session& session = disk_->sessions[record.id];
    const bool fresh = session.versions.empty();
    if (shared_ && session.epoch > epochs_[record.id]) {
      return absl::AbortedError("another server claimed the session");
    }
    if (session.whole && session.record.version > record.version) {
      return absl::AbortedError(
          absl::StrCat("version ", session.record.version, " is stored, this is ", record.version));
    }
    if (disk_->budget > 0 && disk_->Bytes() + bytes > disk_->budget) {
      if (fresh) disk_->sessions.erase(record.id);
      return absl::ResourceExhaustedError("the tier is full");
    }
    ++disk_->puts;
    if (fresh) epochs_[record.id] = session.epoch = ++disk_->epochs;
    session.versions[version] = std::move(data);
    if (version == record.version) {
      session.record = record;
      session.whole = true;
      std::erase_if(session.versions, [&](const auto& v) { return !named.contains(v.first); });
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::unique_ptr<ByteSource>> Get(const std::string& id, int64_t version) override {
    if (auto status = Begin("Get"); !status.ok()) return status;
    const std::lock_guard lock(disk_->mutex);
    ++disk_->gets;
    const auto found = disk_->sessions.find(id);
    if (found == disk_->sessions.end() || !found->second.versions.contains(version)) {
      return absl::NotFoundError("not stored");
    }
    return std::make_unique<Source>(found->second.versions[version]);
  }

  absl::Status Delete(const std::string& id) override {
    if (auto status = Begin("Delete"); !status.ok()) return status;
    const std::lock_guard lock(disk_->mutex);
    disk_->sessions.erase(id);
    return absl::OkStatus();
  }

  bool shared() const override { return shared_; }

  absl::Status Claim(const std::string& id) override {
    if (auto status = Begin("Claim"); !status.ok()) return status;
    const std::lock_guard lock(disk_->mutex);
    const auto found = disk_->sessions.find(id);
    if (found == disk_->sessions.end()) return absl::NotFoundError("not stored");
    epochs_[id] = found->second.epoch = ++disk_->epochs;
    return absl::OkStatus();
  }

  absl::StatusOr<bool> Owned(const std::string& id) override {
    if (auto status = Begin("Owned"); !status.ok()) return status;
    const std::lock_guard lock(disk_->mutex);
    const auto found = disk_->sessions.find(id);
    return found != disk_->sessions.end() && found->second.epoch == epochs_[id];
  }

  Usage usage() const override {
    const std::lock_guard lock(disk_->mutex);
    return {.sessions = static_cast<int64_t>(disk_->sessions.size()),
            .bytes = disk_->Bytes(),
            .budget = disk_->budget};
  }

 private:
  class Source : public ByteSource {
   public:
    explicit Source(std::string data) : data_(std::move(data)) {}
    absl::Status Read(std::span<std::byte> out) override {
      if (out.size() > data_.size() - at_) return absl::OutOfRangeError("ends before");
      std::memcpy(out.data(), data_.data() + at_, out.size());
      at_ += out.size();
      return absl::OkStatus();
    }

   private:
    const std::string data_;
    size_t at_ = 0;
  };

  absl::Status Begin(std::string_view operation) {
    return disk_->fail ? disk_->fail(operation) : absl::OkStatus();
  }

  const std::shared_ptr<MemoryDisk> disk_;
  const bool shared_;
  std::map<std::string, int64_t> epochs_;  // of this server's claims; guarded by the disk's mutex
};

}  // namespace tvq

#endif  // TVQ_TESTS_SERVER_SESSIONS_MEMORY_TIER_H_
