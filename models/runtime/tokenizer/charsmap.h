#ifndef TVQ_MODELS_RUNTIME_TOKENIZER_CHARSMAP_H_
#define TVQ_MODELS_RUNTIME_TOKENIZER_CHARSMAP_H_

#include <string_view>

#include "absl/status/status.h"

namespace tvq {

// Checks a SentencePiece model's `precompiled_charsmap`: the size of a trie in 4 bytes, the trie (a
// Darts-clone double array: github.com/s-yata/darts-clone), and zero-terminated replacement
// strings. The library does not check the map, so this function does: every index that a text can
// lead to must lie inside, every value must point at a string that ends, and no text may match more
// prefixes than the library has room for. An empty map is valid: it changes nothing. The message
// of an error reads on from a name of the map ("... is cut short").
absl::Status CheckCharsmap(std::string_view map);

}  // namespace tvq

#endif  // TVQ_MODELS_RUNTIME_TOKENIZER_CHARSMAP_H_
