// What calls with an idempotency key were answered.
#ifndef TVQ_SERVER_SESSIONS_REPLIES_H_
#define TVQ_SERVER_SESSIONS_REPLIES_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>

namespace tvq {

// The newest few replies of one session. Copies share the replies' text. Thread-compatible.
class Replies {
 public:
  struct Entry {
    std::string key;
    std::shared_ptr<const std::string> reply;
  };
  static constexpr size_t kKept = 8;
  static constexpr size_t kMaxReplyBytes = 1 << 20;

  // Remembers the reply in the place of the oldest. A call without a key, or with a longer reply,
  // is not remembered: its retry is done again, which `expected_version` can prevent.
  void Add(const std::string& key, std::string reply);
  std::optional<std::string> Find(const std::string& key) const;

  const std::deque<Entry>& entries() const { return entries_; }  // oldest first

 private:
  std::deque<Entry> entries_;
};

}  // namespace tvq

#endif  // TVQ_SERVER_SESSIONS_REPLIES_H_
