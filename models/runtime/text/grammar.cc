#include "models/runtime/text/grammar.h"

#include <algorithm>
#include <string>
#include <vector>

#include "kernels/ops/sample.h"
#include "models/runtime/text/library/library_tokenizer.h"

namespace tvq {

absl::Status GrammarMatcher::Mask(std::span<uint32_t> mask) {
  std::string error;
  const int32_t code =
      tvq_text_matcher_mask(handle_.get(), mask.data(), mask.size(), SinkOf(&error));
  return TextLibraryStatus(code, error);
}

absl::Status GrammarMatcher::Accept(int32_t id) {
  std::string error;
  const int32_t code =
      tvq_text_matcher_accept(handle_.get(), static_cast<uint32_t>(id), SinkOf(&error));
  return TextLibraryStatus(code, error);
}

absl::StatusOr<GrammarMatcher> Grammar::Begin() const {
  TvqTextMatcher* matcher = nullptr;
  std::string error;
  const int32_t code = tvq_text_matcher_open(handle_.get(), &matcher, SinkOf(&error));
  if (code != kTvqTextOk) return TextLibraryStatus(code, error);
  return GrammarMatcher(matcher);
}

absl::StatusOr<GrammarVocabulary> GrammarVocabulary::Make(const Tokenizer& tokenizer,
                                                          std::span<const int32_t> end_ids) {
  std::vector<TvqTextTokenText> tokens;
  for (int32_t id = 0; id < tokenizer.vocab_size(); ++id) {
    if (tokenizer.IsSpecial(id)) continue;
    tokens.push_back({static_cast<uint32_t>(id), TextOf(tokenizer.TokenBytes(id))});
  }
  const std::vector<uint32_t> ends(end_ids.begin(), end_ids.end());
  TvqTextVocabulary* vocabulary = nullptr;
  std::string error;
  const int32_t code = tvq_text_vocabulary_open(
      tokens.data(), tokens.size(), static_cast<uint32_t>(tokenizer.vocab_size()), ends.data(),
      ends.size(), &vocabulary, SinkOf(&error));
  if (code != kTvqTextOk) return TextLibraryStatus(code, error);
  return GrammarVocabulary(vocabulary, tokenizer.vocab_size());
}

absl::StatusOr<std::shared_ptr<const Grammar>> GrammarVocabulary::Read(
    GrammarLanguage language, std::string_view source) const {
  TvqTextGrammar* grammar = nullptr;
  std::string error;
  const int32_t code = tvq_text_grammar_open(handle_.get(), static_cast<int32_t>(language),
                                             TextOf(source), &grammar, SinkOf(&error));
  if (code != kTvqTextOk) return TextLibraryStatus(code, error);
  return std::make_shared<const Grammar>(grammar, MaskWords(ids_));
}

}  // namespace tvq
