// The token ids of a session, kept beside its state.
#ifndef TVQ_SERVER_SESSIONS_RECORD_TOKEN_LOG_H_
#define TVQ_SERVER_SESSIONS_RECORD_TOKEN_LOG_H_

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace tvq {

// A sequence of ids that only grows. A copy shares the ids: forks and marks of a long session cost
// a few pointers each. Thread-compatible; copies are independent.
class TokenLog {
 public:
  void Append(std::span<const int32_t> ids);
  std::vector<int32_t> Ids() const { return Ids(0, size_); }
  // `count` ids from `first` on, all of which must be there.
  std::vector<int32_t> Ids(int64_t first, int64_t count) const;
  // The first `count`, all of which must be there.
  TokenLog First(int64_t count) const;
  int64_t size() const { return size_; }

 private:
  using Piece = std::vector<int32_t>;
  std::vector<std::shared_ptr<const Piece>> pieces_;  // immutable: other logs share them
  int64_t size_ = 0;
};

}  // namespace tvq

#endif  // TVQ_SERVER_SESSIONS_RECORD_TOKEN_LOG_H_
