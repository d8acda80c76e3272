// A tokenizer for tests of grammars: some tokens have several characters.
#ifndef TVQ_TESTS_MODELS_RUNTIME_TEXT_WORD_TOKENIZER_H_
#define TVQ_TESTS_MODELS_RUNTIME_TEXT_WORD_TOKENIZER_H_

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "models/runtime/tokenizer/tokenizer.h"

namespace tvq {

// Ids 0 to 255 are bytes, then come `words`, and the last one is special.
class WordTokenizer : public Tokenizer {
 public:
  explicit WordTokenizer(const std::vector<std::string>& words = {}) {
    for (int byte = 0; byte < 256; ++byte) texts_.emplace_back(1, static_cast<char>(byte));
    texts_.insert(texts_.end(), words.begin(), words.end());
    texts_.emplace_back();
  }
  int32_t end() const { return vocab_size() - 1; }
  // Of a text that is one token.
  int32_t Id(std::string_view text) const {
    return static_cast<int32_t>(std::ranges::find(texts_, text) - texts_.begin());
  }

  absl::StatusOr<std::vector<int32_t>> Encode(std::string_view) const override {
    return absl::UnimplementedError("not needed");
  }
  std::string_view TokenBytes(int32_t id) const override { return texts_[static_cast<size_t>(id)]; }
  bool IsSpecial(int32_t id) const override { return id == end(); }
  bool StripsLeadingSpace() const override { return false; }
  int32_t vocab_size() const override { return static_cast<int32_t>(texts_.size()); }
  std::string_view type() const override { return "bytes"; }

 private:
  std::vector<std::string> texts_;
};

}  // namespace tvq

#endif  // TVQ_TESTS_MODELS_RUNTIME_TEXT_WORD_TOKENIZER_H_
