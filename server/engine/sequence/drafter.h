// What a sequence has verified at once with its next token, and how much of it.
#ifndef TVQ_SERVER_ENGINE_SEQUENCE_DRAFTER_H_
#define TVQ_SERVER_ENGINE_SEQUENCE_DRAFTER_H_

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "server/engine/sequence/prompt_lookup.h"

namespace tvq {

// If all of a draft was right, the next one is twice as long; else it is as long as the part that
// was right. After a draft that was all wrong some steps have none, twice as many each time, up to
// kLongestRest: a text that does not repeat itself has hardly any drafts.
class Drafter {
 public:
  // As PromptLookup's.
  explicit Drafter(int64_t tokens) : lookup_(tokens) {}

  // Of the sequence: its prompt, then what it generates.
  void Append(int32_t id) { lookup_.Append(id); }

  // What may follow the last token, at most `most` tokens; replaces the draft before.
  std::span<const int32_t> Draft(int64_t most) {
    draft_.clear();
    if (most <= 0) return draft_;
    if (resting_ > 0) {
      --resting_;
    } else {
      lookup_.Guess(std::min(most, length_), draft_);
    }
    return draft_;
  }
  std::span<const int32_t> draft() const { return draft_; }

  // So many tokens of the draft were right, which is gone then.
  void Verified(int64_t right) {
    const auto drafted = static_cast<int64_t>(draft_.size());
    draft_.clear();
    if (drafted == 0) return;
    if (right > 0) {
      length_ = right < drafted ? right : std::min(std::max(length_, 2 * drafted), kLongest);
      rest_ = 1;
      return;
    }
    length_ = 1;
    resting_ = rest_;
    rest_ = std::min(2 * rest_, kLongestRest);
  }

  static constexpr int64_t kLongest = 64;
  static constexpr int64_t kLongestRest = 64;

 private:
  PromptLookup lookup_;
  std::vector<int32_t> draft_;
  int64_t length_ = 2;   // of the next draft
  int64_t rest_ = 1;     // steps, after the next draft that is all wrong
  int64_t resting_ = 0;  // steps to go
};

}  // namespace tvq

#endif  // TVQ_SERVER_ENGINE_SEQUENCE_DRAFTER_H_
