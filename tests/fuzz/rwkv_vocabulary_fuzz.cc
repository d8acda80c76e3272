// Any bytes as an RWKV vocabulary: a tokenizer made of it encodes the tokens that it lists.

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
  const auto tokenizer = tvq::MakeRwkvTokenizer(list, "vocab.txt", config);
  if (!tokenizer.ok()) return 0;
  (void)(*tokenizer)->Encode(list);
  for (int32_t id = 0; id < (*tokenizer)->vocab_size(); ++id) {
    if ((*tokenizer)->IsSpecial(id)) continue;
    const auto ids =
        (*tokenizer)->Encode((*tokenizer)->TokenBytes(id));  // of parts of characters: refused
    if (ids.ok() && (ids->size() != 1 || ids->front() != id)) std::abort();
  }
  return 0;
}
