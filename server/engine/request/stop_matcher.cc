#include "server/engine/request/stop_matcher.h"

#include <algorithm>
#include <utility>

namespace tvq {

StopStrings::StopStrings(std::vector<std::string> strings) : strings_(std::move(strings)) {
  for (const std::string& s : strings_) {
    std::vector<uint16_t> border(s.size() + 1, 0);
    for (size_t m = 1, k = 0; m < s.size(); ++m) {
      while (k > 0 && s[m] != s[k]) k = border[k];
      if (s[m] == s[k]) ++k;
      border[m + 1] = static_cast<uint16_t>(k);
    }
    failure_.push_back(std::move(border));
  }
}

size_t StopStrings::Advance(size_t i, size_t matched, char byte) const {
  const std::string& s = strings_[i];
  if (matched == s.size()) matched = failure_[i][matched];
  while (matched > 0 && s[matched] != byte) matched = failure_[i][matched];
  return s[matched] == byte ? matched + 1 : 0;
}

StopMatcher::StopMatcher(std::shared_ptr<const StopStrings> stops, bool include_stop)
    : stops_(std::move(stops)), include_stop_(include_stop), matched_(stops_->size(), 0) {}

StreamPiece StopMatcher::Push(std::string_view text, bool armed) {
  std::string seen = std::exchange(held_, {});
  for (const char byte : text) {
    seen.push_back(byte);
    for (size_t i = 0; i < matched_.size(); ++i) {
      matched_[i] = stops_->Advance(i, matched_[i], byte);
    }
    const std::optional<size_t> found = armed ? LongestComplete() : std::nullopt;
    if (!found) continue;
    const std::string& stop = stops_->string(*found);
    if (!include_stop_) seen.resize(seen.size() - stop.size());
    return {std::move(seen), stop};
  }
  size_t hold = 0;
  for (size_t i = 0; i < matched_.size(); ++i) {
    // A whole string that did not count is text; only what may still become one is held.
    const bool whole = matched_[i] == stops_->string(i).size();
    hold = std::max(hold, whole ? stops_->Border(i) : matched_[i]);
  }
  held_ = seen.substr(seen.size() - hold);
  seen.resize(seen.size() - hold);
  return {.text = std::move(seen)};
}

std::string StopMatcher::Finish() {
  std::fill(matched_.begin(), matched_.end(), 0);
  return std::exchange(held_, {});
}

std::optional<size_t> StopMatcher::LongestComplete() const {
  std::optional<size_t> best;
  for (size_t i = 0; i < matched_.size(); ++i) {
    const size_t size = stops_->string(i).size();
    if (matched_[i] == size && (!best || size > stops_->string(*best).size())) best = i;
  }
  return best;
}

}  // namespace tvq
