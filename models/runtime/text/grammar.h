// Grammars that an output must follow: a JSON schema, a regular expression, or a grammar in Lark's
// notation, as llguidance reads it.
#ifndef TVQ_MODELS_RUNTIME_TEXT_GRAMMAR_H_
#define TVQ_MODELS_RUNTIME_TEXT_GRAMMAR_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "models/runtime/text/library/text_library.h"
#include "models/runtime/tokenizer/tokenizer.h"

namespace tvq {

// Where one output stands in its grammar. One thread at a time.
class GrammarMatcher {
 public:
  explicit GrammarMatcher(TvqTextMatcher* handle) : handle_(handle) {}

  // Sets bit i % 32 of mask[i / 32] if token i may be next, and no other; mask [Grammar's
  // mask_words]. Where nothing may follow, it allows the tokens that end the output.
  // RESOURCE_EXHAUSTED if the grammar takes too long.
  absl::Status Mask(std::span<uint32_t> mask);
  // The output goes on with `id`, which the mask allows.
  absl::Status Accept(int32_t id);

 private:
  struct Close {
    void operator()(TvqTextMatcher* handle) const { tvq_text_matcher_close(handle); }
  };
  std::unique_ptr<TvqTextMatcher, Close> handle_;
};

// Immutable; any thread.
class Grammar {
 public:
  Grammar(TvqTextGrammar* handle, int64_t mask_words) : handle_(handle), mask_words_(mask_words) {}

  int64_t mask_words() const { return mask_words_; }
  // The memory that it takes.
  int64_t bytes() const { return tvq_text_grammar_bytes(handle_.get()); }
  // At the start of an output. It may outlive the grammar.
  absl::StatusOr<GrammarMatcher> Begin() const;

 private:
  struct Close {
    void operator()(TvqTextGrammar* handle) const { tvq_text_grammar_close(handle); }
  };
  const std::unique_ptr<TvqTextGrammar, Close> handle_;
  const int64_t mask_words_;
};

enum class GrammarLanguage { kJsonSchema, kRegex, kLark };

// The tokens of a model, ordered for grammars, which takes a second for 150,000 of them. Immutable;
// any thread.
class GrammarVocabulary {
 public:
  // `end_ids`: what ends an output; at least one.
  static absl::StatusOr<GrammarVocabulary> Make(const Tokenizer& tokenizer,
                                                std::span<const int32_t> end_ids);

  // Some milliseconds. INVALID_ARGUMENT says what is wrong with `source`; RESOURCE_EXHAUSTED if it
  // takes more than 2 s of processor time or 128 MB, UNAVAILABLE while all grammars and matchers
  // together take 1 GB.
  absl::StatusOr<std::shared_ptr<const Grammar>> Read(GrammarLanguage language,
                                                      std::string_view source) const;

 private:
  GrammarVocabulary(TvqTextVocabulary* handle, int64_t ids) : handle_(handle), ids_(ids) {}

  struct Close {
    void operator()(TvqTextVocabulary* handle) const { tvq_text_vocabulary_close(handle); }
  };
  std::unique_ptr<TvqTextVocabulary, Close> handle_;
  int64_t ids_;
};

}  // namespace tvq

#endif  // TVQ_MODELS_RUNTIME_TEXT_GRAMMAR_H_
