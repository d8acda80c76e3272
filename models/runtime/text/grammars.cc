#include "models/runtime/text/grammars.h"

namespace tvq {

absl::StatusOr<std::shared_ptr<const Grammar>> Grammars::Get(GrammarLanguage language,
                                                             const std::string& source) {
  const Key key{language, source};
  if (auto found = Find(key)) return found;
  const GrammarVocabulary* vocabulary = nullptr;
  {
    const MutexLock lock(&vocabulary_mutex_);
    if (!vocabulary_) {
      absl::StatusOr<GrammarVocabulary> made = GrammarVocabulary::Make(tokenizer_, end_ids_);
      if (!made.ok()) return made.status();
      vocabulary_ = *std::move(made);
    }
    vocabulary = &*vocabulary_;  // which does not change from here on
  }
  absl::StatusOr<std::shared_ptr<const Grammar>> grammar = vocabulary->Read(language, source);
  if (grammar.ok()) Keep(key, *grammar);
  return grammar;
}

std::shared_ptr<const Grammar> Grammars::Find(const Key& key) {
  const MutexLock lock(&mutex_);
  const auto found = kept_.find(key);
  if (found == kept_.end()) return nullptr;
  uses_.splice(uses_.begin(), uses_, found->second.use);
  return found->second.grammar;
}

void Grammars::Keep(const Key& key, std::shared_ptr<const Grammar> grammar) {
  const MutexLock lock(&mutex_);
  if (kept_.contains(key)) return;  // another call was as fast
  uses_.push_front(key);
  kept_[key] = {std::move(grammar), uses_.begin()};
  bytes_ += kept_[key].grammar->bytes();
  while (kept_.size() > kMostKept || bytes_ > most_kept_bytes_) {
    const auto oldest = kept_.find(uses_.back());
    bytes_ -= oldest->second.grammar->bytes();
    kept_.erase(oldest);
    uses_.pop_back();
  }
}

}  // namespace tvq
