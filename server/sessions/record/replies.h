// What calls with an idempotency key were answered.
#ifndef TVQ_SERVER_SESSIONS_RECORD_REPLIES_H_
#define TVQ_SERVER_SESSIONS_RECORD_REPLIES_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace tvq {

enum class CallKind {
  kCreate,
  kImport,
  kFork,
  kCompute,
  kMark,
  kUnmark,
  kRewind,
  kSave,
  kDelete,
};

// What a call with an idempotency key asks, as it is stored: its kind, a dash and the hash of its
// content. A retry asks the same.
std::string AskedBy(CallKind kind, uint64_t request_hash);

// INVALID_ARGUMENT for a key that belongs to another call than the one it came with.
absl::Status KeyIsTaken(const std::string& key);

// The newest few replies of one session. Copies share the replies' text. Thread-compatible.
class Replies {
 public:
  struct Entry {
    std::string key;
    std::shared_ptr<const std::string> text;  // what was asked, a space, and the reply
  };
  static constexpr size_t kKept = 8;

  // Remembers the reply in the place of the oldest; nothing of a call without a key.
  void Add(const std::string& key, const std::string& asked, std::string_view reply);
  // What Add remembered, as it is stored.
  void Restore(const std::string& key, std::string text);

  // Nothing for a key that is new. INVALID_ARGUMENT if something else was asked with it, DATA_LOSS
  // for a stored text that Add did not make.
  absl::StatusOr<std::optional<std::string>> Find(const std::string& key,
                                                  const std::string& asked) const;

  int64_t bytes() const;
  const std::deque<Entry>& entries() const { return entries_; }  // oldest first

 private:
  std::deque<Entry> entries_;
};

}  // namespace tvq

#endif  // TVQ_SERVER_SESSIONS_RECORD_REPLIES_H_
