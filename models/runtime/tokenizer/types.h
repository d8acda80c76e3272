#ifndef TVQ_MODELS_RUNTIME_TOKENIZER_TYPES_H_
#define TVQ_MODELS_RUNTIME_TOKENIZER_TYPES_H_

// One function for each type of tokenizer. Each checks that its ids fit config.vocab_size.

#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "models/runtime/config/config.h"
#include "models/runtime/tokenizer/tokenizer.h"

namespace tvq {

// id = byte + 3; 0 pad, 1 end, 2 unknown.
absl::StatusOr<std::unique_ptr<Tokenizer>> MakeBytesTokenizer(const CommonConfig& config);

// `list` is the content of a character file: UTF-8, one character (code point) on each line, and
// the line \n for a newline. Ids count from tokenizer.first_id in the order of lines. A character
// that is not listed becomes config.unk_token_id, or is an error if there is none. `source` names
// the file in messages.
absl::StatusOr<std::unique_ptr<Tokenizer>> MakeCharactersTokenizer(std::string_view list,
                                                                   std::string_view source,
                                                                   const CommonConfig& config);

// The text form of an image: its levels in decimal, separated by spaces. id = level.
absl::StatusOr<std::unique_ptr<Tokenizer>> MakePixelsTokenizer(const CommonConfig& config);

// For a model whose vocabulary is not known: every id in decimal, separated by spaces.
std::unique_ptr<Tokenizer> MakeIdsTokenizer(const CommonConfig& config);

// `model` is the content of a SentencePiece .model file; `source` names it in messages.
absl::StatusOr<std::unique_ptr<Tokenizer>> MakeSentencePieceTokenizer(std::string_view model,
                                                                      std::string_view source,
                                                                      const CommonConfig& config);

// `json` is the content of a tokenizer.json; `source` names it in messages.
absl::StatusOr<std::unique_ptr<Tokenizer>> MakeHuggingFaceTokenizer(std::string_view json,
                                                                    std::string_view source,
                                                                    const CommonConfig& config);

// `list` is the content of an RWKV vocabulary: each line has an id, a Python literal (str or bytes)
// and its length in bytes. Encoding goes from the start of a text to its end and always takes the
// longest token that fits. `source` names the file in messages.
absl::StatusOr<std::unique_ptr<Tokenizer>> MakeRwkvTokenizer(std::string_view list,
                                                             std::string_view source,
                                                             const CommonConfig& config);

}  // namespace tvq

#endif  // TVQ_MODELS_RUNTIME_TOKENIZER_TYPES_H_
