// Any bytes as a character file: a tokenizer made of it encodes the characters it lists.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "models/runtime/tokenizer/types.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view list(reinterpret_cast<const char*>(data), size);
  tvq::CommonConfig config;
  config.vocab_size = 1000;
  config.tokenizer.type = "characters";
  if (size % 2 == 0) config.unk_token_id = 2;
  const auto tokenizer = tvq::MakeCharactersTokenizer(list, "characters.txt", config);
  if (!tokenizer.ok()) return 0;
  if (const auto ids = (*tokenizer)->Encode(list); ids.ok()) {
    (void)(*tokenizer)->CheckKnown(list, *ids);
  }
  for (int32_t id = 0; id < (*tokenizer)->vocab_size(); ++id) {
    if ((*tokenizer)->IsSpecial(id)) continue;
    const auto ids = (*tokenizer)->Encode((*tokenizer)->TokenBytes(id));
    if (!ids.ok() || ids->size() != 1 || ids->front() != id) std::abort();
  }
  return 0;
}
