// Finds stop strings in a stream of text without ever showing part of one.
#ifndef TVQ_SERVER_ENGINE_REQUEST_STOP_MATCHER_H_
#define TVQ_SERVER_ENGINE_REQUEST_STOP_MATCHER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tvq {

// Stop strings with their failure tables (Knuth, Morris, Pratt). Immutable, shared by the samples
// of a request.
class StopStrings {
 public:
  static constexpr size_t kMaxBytes = UINT16_MAX;  // of a string

  // No string is empty or has more than kMaxBytes.
  explicit StopStrings(std::vector<std::string> strings);

  size_t size() const { return strings_.size(); }
  const std::string& string(size_t i) const { return strings_[i]; }

  // Length of the longest prefix of string i that ends the text, now that `byte` followed a text
  // that ended with its first `matched` bytes.
  size_t Advance(size_t i, size_t matched, char byte) const;

  // Length of the longest end of string i that is also its beginning, the whole string apart.
  size_t Border(size_t i) const { return failure_[i].back(); }

 private:
  std::vector<std::string> strings_;
  std::vector<std::vector<uint16_t>>
      failure_;  // [i][m]: longest proper border of the first m bytes
};

// Text that may be shown, and the stop string that ended it if one did.
struct StreamPiece {
  std::string text;
  std::optional<std::string> stop;
};

// The string whose last byte comes first ends the text; of several that end there, the longest.
// Holds back the longest end of the text that is the beginning of some stop string. Since stop
// strings and text are UTF-8, what is shown ends between characters if what is pushed does.
// Not thread-safe; copyable.
class StopMatcher {
 public:
  // `include_stop`: the stop string itself is shown too.
  StopMatcher(std::shared_ptr<const StopStrings> stops, bool include_stop);

  // After a stop nothing more may be pushed. Strings that end within `text` count only if `armed`.
  StreamPiece Push(std::string_view text, bool armed);

  // What was held back, when the text ends without a stop.
  std::string Finish();

 private:
  std::optional<size_t> LongestComplete() const;

  std::shared_ptr<const StopStrings> stops_;
  bool include_stop_;
  std::string held_;
  std::vector<size_t> matched_;  // per stop string: bytes of it that end the text
};

}  // namespace tvq

#endif  // TVQ_SERVER_ENGINE_REQUEST_STOP_MATCHER_H_
