// Any bytes as a SentencePiece model, through our checks and then through the library itself, which
// crashes on models that our checks should have refused.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "models/runtime/tokenizer/types.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view model(reinterpret_cast<const char*>(data), size);
  tvq::CommonConfig config;
  config.vocab_size = 1000;
  config.tokenizer.type = "sentencepiece";
  const auto tokenizer = tvq::MakeSentencePieceTokenizer(model, "tokenizer.model", config);
  if (!tokenizer.ok()) return 0;
  const std::string texts[] = {"",
                               " ",
                               "x ",
                               "Hear me speak.\n  <|user|>",
                               "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
                               "\xEF\xBC\xA1 \xEF\xAC\x81sh \xF0\x9F\x98\x80",
                               std::string(3, '\0')};
  for (const std::string& text : texts) {
    const auto ids = (*tokenizer)->Encode(text);
    if (ids.ok()) (void)(*tokenizer)->CheckKnown(text, *ids);
    if (ids.ok() && !(*tokenizer)->Decode(*ids).ok()) std::abort();
  }
  return 0;
}
