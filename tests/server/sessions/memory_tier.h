// A durable tier in memory, which outlives the stores that use it, fails when told to, and checks
// what it is asked to keep.
#ifndef TVQ_TESTS_SERVER_SESSIONS_MEMORY_TIER_H_
#define TVQ_TESTS_SERVER_SESSIONS_MEMORY_TIER_H_

#include <gtest/gtest.h>

#include <algorithm>
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
#include "server/sessions/durable/durable_tier.h"

namespace tvq {

// What the tier's servers share.
struct MemoryDisk {
  struct Session {
    SessionRecord record;  // the newest whose own state is stored
    bool whole = false;    // there is one
    std::map<int64_t, std::string> versions;
    int64_t epoch = 0;  // of the last claim
  };

  // Called at the start of every operation with its name, and of Put once more ("write") when half
  // of the bytes are there; what is not OK is returned instead. Also at the end of a shared tier's
  // Put
  // ("stored"), whose answer it takes the place of, as when a connection is lost.
  std::function<absl::Status(std::string_view operation)> fail;

  std::mutex mutex;
  // Guarded by mutex.
  std::map<std::string, Session> sessions;
  std::map<std::string, int64_t> deleted;  // ids and the epochs of their ends
  std::string instance = "first";
  int64_t budget = 0;
  int64_t epochs = 0;
  int64_t puts = 0;
  int64_t gets = 0;

  // As a Redis without a disk that is started again.
  void LoseAll() {
    const std::lock_guard lock(mutex);
    sessions.clear();
    deleted.clear();
    instance += "+";
  }

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
    if (auto status = Keep(record, version, std::move(data), named); !status.ok()) return status;
    auto answer = shared_ ? Begin("stored") : absl::OkStatus();
    const std::lock_guard lock(disk_->mutex);
    undone_[record.id] = answer.ok() ? 0 : version;
    return answer;
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
    if (!disk_->sessions.contains(id)) return absl::OkStatus();
    if (auto status = Fenced(id); !status.ok()) return status;
    Erase(id);
    return absl::OkStatus();
  }

  absl::Status Touch(const std::string& id, absl::Time last_used) override {
    if (auto status = Begin("Touch"); !status.ok()) return status;
    const std::lock_guard lock(disk_->mutex);
    SessionRecord* const record = Whole(id);
    if (record == nullptr) return absl::NotFoundError("not stored");
    if (auto status = Fenced(id); !status.ok()) return status;
    record->last_used = std::max(record->last_used, last_used);
    return absl::OkStatus();
  }

  bool shared() const override { return shared_; }

  absl::StatusOr<SessionRecord> Claim(const std::string& id, absl::Time now) override {
    if (auto status = Begin("Claim"); !status.ok()) return status;
    const std::lock_guard lock(disk_->mutex);
    SessionRecord* const record = Whole(id);
    if (record == nullptr) return absl::NotFoundError("not stored");
    epochs_[id] = disk_->sessions[id].epoch = ++disk_->epochs;
    record->last_used = std::max(record->last_used, now);
    return *record;
  }

  absl::StatusOr<Standing> Look(const std::string& id) override {
    if (auto status = Begin("Look"); !status.ok()) return status;
    const std::lock_guard lock(disk_->mutex);
    const SessionRecord* const record = Whole(id);
    return Standing{.owned = Fenced(id).ok(), .version = record != nullptr ? record->version : 0};
  }

  absl::StatusOr<bool> DeleteUnused(const std::string& id, absl::Time since) override {
    if (auto status = Begin("DeleteUnused"); !status.ok()) return status;
    const std::lock_guard lock(disk_->mutex);
    const SessionRecord* const record = Whole(id);
    if (record == nullptr || record->last_used > since) return false;
    Erase(id);
    return true;
  }

  absl::StatusOr<std::vector<std::string>> CreatedBy(const SessionRecord& like) override {
    if (auto status = Begin("CreatedBy"); !status.ok()) return status;
    const std::lock_guard lock(disk_->mutex);
    std::vector<std::string> ids;
    for (const auto& [id, session] : disk_->sessions) {
      const SessionRecord& record = session.record;
      if (session.whole && record.owner == like.owner && record.parent_id == like.parent_id &&
          record.creation_key == like.creation_key) {
        ids.push_back(id);
      }
    }
    return ids;
  }

  absl::StatusOr<std::string> Instance() override {
    if (auto status = Begin("Instance"); !status.ok()) return status;
    const std::lock_guard lock(disk_->mutex);
    return disk_->instance;
  }

  void ForgetClaim(const std::string& id) override {
    const std::lock_guard lock(disk_->mutex);
    epochs_.erase(id);
  }
  bool RemembersClaim(const std::string& id) const {
    const std::lock_guard lock(disk_->mutex);
    const auto epoch = epochs_.find(id);
    return epoch != epochs_.end() && epoch->second > 0;
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

  absl::Status Keep(const SessionRecord& record, int64_t version, std::string data,
                    const std::set<int64_t>& named) {
    const std::lock_guard lock(disk_->mutex);
    if (auto status = Fenced(record.id); !status.ok()) return status;
    const bool fresh = !disk_->sessions.contains(record.id);
    MemoryDisk::Session& session = disk_->sessions[record.id];
    if (session.whole && session.record.version > record.version &&
        session.record.version != undone_[record.id]) {
      return absl::AbortedError(
          absl::StrCat("version ", session.record.version, " is stored, this is ", record.version));
    }
    if (disk_->budget > 0 && disk_->Bytes() + std::ssize(data) > disk_->budget) {
      if (fresh) disk_->sessions.erase(record.id);
      return absl::ResourceExhaustedError("the tier is full");
    }
    ++disk_->puts;
    if (fresh && epochs_[record.id] == 0) epochs_[record.id] = ++disk_->epochs;
    session.epoch = epochs_[record.id];
    disk_->deleted.erase(record.id);
    session.versions[version] = std::move(data);
    if (version == record.version) {
      const absl::Time used = session.whole ? session.record.last_used : absl::InfinitePast();
      session.record = record;
      session.record.last_used = std::max(record.last_used, used);
      session.whole = true;
      std::erase_if(session.versions, [&](const auto& v) { return !named.contains(v.first); });
    }
    return absl::OkStatus();
  }
  // The rest with the disk's mutex held.

  // Null if there is no record.
  SessionRecord* Whole(const std::string& id) const {
    const auto found = disk_->sessions.find(id);
    return found != disk_->sessions.end() && found->second.whole ? &found->second.record : nullptr;
  }

  // ABORTED if another server claimed or deleted the session.
  absl::Status Fenced(const std::string& id) {
    if (!shared_) return absl::OkStatus();
    const auto end = disk_->deleted.find(id);
    if (end != disk_->deleted.end() && end->second > epochs_[id]) {
      return absl::AbortedError("it was deleted");
    }
    const auto found = disk_->sessions.find(id);
    if (found == disk_->sessions.end() || found->second.epoch <= epochs_[id]) {
      return absl::OkStatus();
    }
    return absl::AbortedError("another server writes it");
  }

  void Erase(const std::string& id) {
    disk_->sessions.erase(id);
    disk_->deleted[id] = ++disk_->epochs;
    epochs_.erase(id);
  }

  absl::Status Begin(std::string_view operation) {
    return disk_->fail ? disk_->fail(operation) : absl::OkStatus();
  }

  const std::shared_ptr<MemoryDisk> disk_;
  const bool shared_;
  std::map<std::string, int64_t> undone_;  // versions whose Put failed and that may be replaced
  std::map<std::string, int64_t> epochs_;  // of this server's claims; guarded by the disk's mutex
};

}  // namespace tvq

#endif  // TVQ_TESTS_SERVER_SESSIONS_MEMORY_TIER_H_
