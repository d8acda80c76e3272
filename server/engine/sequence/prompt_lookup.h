// Guesses how a text goes on: as it went on where its last tokens came before (Saxena, Prompt
// Lookup Decoding, 2023).
#ifndef TVQ_SERVER_ENGINE_SEQUENCE_PROMPT_LOOKUP_H_
#define TVQ_SERVER_ENGINE_SEQUENCE_PROMPT_LOOKUP_H_

#include <cstdint>
#include <span>
#include <vector>

namespace tvq {

// The tokens of a sequence and where each run of three and of two of them came last: a run may be
// forgotten for another that has the same place. Memory is taken once. Not thread-safe.
class PromptLookup {
 public:
  // Of a sequence that comes to have at most `tokens`. Of more than kMostTokens the last are known.
  explicit PromptLookup(int64_t tokens);

  // Takes the same time whatever came before.
  void Append(int32_t id);

  // Adds to `out` what followed where the last three tokens, or else the last two, came before: at
  // most `most` tokens. Where that reaches the end, the text goes round.
  void Guess(int64_t most, std::vector<int32_t>& out) const;

  static constexpr int64_t kMostTokens = 1 << 14;
  // Of runs of either length, for each token: when as many runs have come as there are tokens, a
  // quarter of the oldest are forgotten.
  static constexpr int64_t kPlaces = 4;
  // Of any sequence.
  static constexpr int64_t kMostBytes = kMostTokens * (1 + 2 * kPlaces) * 4;

 private:
  // Where the runs of `length` tokens ended last, by their hash: as many tokens as there were then.
  struct Places {
    int64_t length;
    std::vector<uint32_t> ends;
    uint32_t back = 0;  // the last run came before so many tokens ago; 0: it did not
  };

  // Notes the last run, and where it was before.
  void Note(Places& places) const;
  // The token that came as the one with this number.
  int32_t At(uint32_t number) const { return tokens_[number & mask_]; }

  std::vector<int32_t> tokens_;  // a ring, of a power of two
  uint32_t mask_;
  uint32_t count_ = 0;  // tokens that came, modulo 2^32
  uint32_t known_ = 0;  // of them, in the ring
  Places three_, two_;
};

}  // namespace tvq

#endif  // TVQ_SERVER_ENGINE_SEQUENCE_PROMPT_LOOKUP_H_
