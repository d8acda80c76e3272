// The grammars of one model that requests ask for.
#ifndef TVQ_MODELS_RUNTIME_TEXT_GRAMMARS_H_
#define TVQ_MODELS_RUNTIME_TEXT_GRAMMARS_H_

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "models/runtime/text/grammar.h"
#include "models/runtime/tokenizer/tokenizer.h"

namespace tvq {

// Keeps those that were used last, since clients ask with the same schema again and again. Any
// thread; the first Get takes a second for a vocabulary of 150,000 tokens.
class Grammars {
 public:
  static constexpr size_t kMostKept = 64;
  static constexpr int64_t kMostKeptBytes = int64_t{64} << 20;

  // The tokenizer must outlive it.
  Grammars(const Tokenizer& tokenizer, std::vector<int32_t> end_ids,
           int64_t most_kept_bytes = kMostKeptBytes)
      : tokenizer_(tokenizer), end_ids_(std::move(end_ids)), most_kept_bytes_(most_kept_bytes) {}

  // Errors as GrammarVocabulary::Make and Read.
  absl::StatusOr<std::shared_ptr<const Grammar>> Get(GrammarLanguage language,
                                                     const std::string& source);

 private:
  using Key = std::pair<GrammarLanguage, std::string>;
  struct Kept {
    std::shared_ptr<const Grammar> grammar;
    std::list<Key>::iterator use;
  };

  std::shared_ptr<const Grammar> Find(const Key& key);
  void Keep(const Key& key, std::shared_ptr<const Grammar> grammar);

  const Tokenizer& tokenizer_;
  const std::vector<int32_t> end_ids_;
  const int64_t most_kept_bytes_;
  Mutex vocabulary_mutex_;  // held while it is made
  std::optional<GrammarVocabulary> vocabulary_ ABSL_GUARDED_BY(vocabulary_mutex_);
  Mutex mutex_;
  std::list<Key> uses_ ABSL_GUARDED_BY(mutex_);  // the latest first
  std::map<Key, Kept> kept_ ABSL_GUARDED_BY(mutex_);
  int64_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace tvq

#endif  // TVQ_MODELS_RUNTIME_TEXT_GRAMMARS_H_
