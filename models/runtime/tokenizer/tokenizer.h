#ifndef TVQ_MODELS_RUNTIME_TOKENIZER_TOKENIZER_H_
#define TVQ_MODELS_RUNTIME_TOKENIZER_TOKENIZER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "models/runtime/config/config.h"

namespace tvq {

// Text to token ids and back. Immutable after loading; all methods may be called from any thread.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  // No special token is added. INVALID_ARGUMENT for text that is not UTF-8 (naming the byte
  // offset), and for a character outside a vocabulary that has no unknown token.
  virtual absl::StatusOr<std::vector<int32_t>> Encode(std::string_view text) const = 0;

  // INVALID_ARGUMENT if `ids`, which Encode made of `text`, have the unknown token; it names the
  // first character that became it, and its byte offset, or says that Encode itself added it behind
  // the text.
  absl::Status CheckKnown(std::string_view text, std::span<const int32_t> ids) const;

  // The byte of `text` at which that begins which became the token `index` of Encode(text), the
  // unknown token; text.size() if no byte did. Of tokenizers that have none 0.
  virtual size_t TokenBegin(std::string_view text, size_t index) const {
    (void)text, (void)index;
    return 0;
  }

  // What Encode has in the place of characters outside the vocabulary, if it does not refuse them.
  virtual std::optional<int32_t> unknown_token() const { return std::nullopt; }

  // The text of a whole sequence: what a StreamDecoder gives for it, so always valid UTF-8, bytes
  // that form no character having become U+FFFD. INVALID_ARGUMENT naming index and id if an id is
  // outside [0, vocab_size).
  virtual absl::StatusOr<std::string> Decode(std::span<const int32_t> ids) const;

  // The bytes the token contributes in the midst of a text. Empty for specials, but for
  // SentencePiece's unknown token, which shows as the surface its model gives it. `id` must be in
  // [0, vocab_size). The view lives as long as the tokenizer.
  virtual std::string_view TokenBytes(int32_t id) const = 0;

  // The same of the first token of a text, where that differs.
  virtual std::string_view FirstTokenBytes(int32_t id) const { return TokenBytes(id); }

  // True of a byte that shows only within a run of such tokens that is valid UTF-8; of another run
  // each becomes U+FFFD (Hugging Face's byte fallback).
  virtual bool IsRunByte(int32_t id) const {
    (void)id;
    return false;
  }

  // True for pad, begin, end, unknown and the like, and for ids without a text.
  virtual bool IsSpecial(int32_t id) const = 0;

  // True if one space at the very start of a decoded text belongs to the encoding, not to the text
  // (SentencePiece with add_dummy_prefix, pixels, ids): Decode and StreamDecoder drop it.
  virtual bool StripsLeadingSpace() const = 0;

  // Ids are 0 .. vocab_size() - 1, as the model's config.json has it.
  virtual int32_t vocab_size() const = 0;

  // bytes, sentencepiece, huggingface, rwkv, characters, pixels, ids
  virtual std::string_view type() const = 0;

 protected:
  // INVALID_ARGUMENT naming the first id outside [0, vocab_size).
  absl::Status CheckIds(std::span<const int32_t> ids) const;
};

// Loads what config.tokenizer describes from the model directory. config.vocab_size may exceed the
// tokenizer's own ids, as where an embedding is padded to a round size: the ids beyond are specials
// without text. Errors name the file and what is wrong with it; among them a tokenizer with more
// ids than config.vocab_size.
absl::StatusOr<std::unique_ptr<Tokenizer>> LoadTokenizer(const std::string& dir,
                                                         const CommonConfig& config);

// The bytes of the file that config.tokenizer names; empty where the type has none.
absl::StatusOr<std::string> TokenizerFile(const std::string& dir, const CommonConfig& config);

}  // namespace tvq

#endif  // TVQ_MODELS_RUNTIME_TOKENIZER_TOKENIZER_H_
