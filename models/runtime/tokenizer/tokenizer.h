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

  // INVALID_ARGUMENT if `ids`, which Encode made of `text`, contain the unknown token. The message
  // names the first character that became the unknown token, and its byte offset, or says that
  // Encode itself added the token behind the text.
  absl::Status CheckKnown(std::string_view text, std::span<const int32_t> ids) const;

  // Encode(text)[index] must be the unknown token. Returns the offset of the byte where the text of
  // this token begins; text.size() if the token stands for no byte of the text; 0 from tokenizers
  // without an unknown token.
  virtual size_t TokenBegin(std::string_view text, size_t index) const {
    (void)text, (void)index;
    return 0;
  }

  // The token that Encode gives for characters outside the vocabulary, if it does not refuse them.
  virtual std::optional<int32_t> unknown_token() const { return std::nullopt; }

  // The text of a whole sequence, as a StreamDecoder gives it. It is always valid UTF-8: bytes that
  // form no character become U+FFFD. INVALID_ARGUMENT naming index and id if an id is outside
  // [0, vocab_size).
  virtual absl::StatusOr<std::string> Decode(std::span<const int32_t> ids) const;

  // The bytes that the token contributes to a text if it is not the first token. Empty for
  // specials, except SentencePiece's unknown token, which has the surface that its model defines.
  // `id` must be in [0, vocab_size). The view lives as long as the tokenizer.
  virtual std::string_view TokenBytes(int32_t id) const = 0;

  // The bytes that the token contributes if it is the first token of a text.
  virtual std::string_view FirstTokenBytes(int32_t id) const { return TokenBytes(id); }

  // True if the token is a byte that is shown only if the run of such tokens around it is valid
  // UTF-8; if the run is not, each of its tokens becomes U+FFFD (Hugging Face's byte fallback).
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

// Loads the tokenizer that config.tokenizer describes from the model directory. config.vocab_size
// may be larger than the number of the tokenizer's ids, for example if an embedding is padded to a
// round size: the ids beyond are specials without text. Errors name the file and what is wrong with
// it. A tokenizer with more ids than config.vocab_size is an error, but a tokenizer.json may have a
// few more.
absl::StatusOr<std::unique_ptr<Tokenizer>> LoadTokenizer(const std::string& dir,
                                                         const CommonConfig& config);

// The bytes of the file that config.tokenizer names; empty if the type has no file.
absl::StatusOr<std::string> TokenizerFile(const std::string& dir, const CommonConfig& config);

}  // namespace tvq

#endif  // TVQ_MODELS_RUNTIME_TOKENIZER_TOKENIZER_H_
