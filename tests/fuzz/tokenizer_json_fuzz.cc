// Any bytes as a tokenizer.json: one that is taken encodes without crashing, and streams what it
// decodes.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "models/runtime/tokenizer/stream_decoder.h"
#include "models/runtime/tokenizer/types.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view file(reinterpret_cast<const char*>(data), size);
  tvq::CommonConfig config;
  config.vocab_size = 1000;
  const auto tokenizer = tvq::MakeHuggingFaceTokenizer(file, "tokenizer.json", config);
  if (!tokenizer.ok()) return 0;
  std::vector<int32_t> all;
  for (const std::string& text :
       {std::string(), std::string(" "), std::string("Hear me speak.\n  <|im_end|> 12"),
        std::string("\xEF\xBC\xA1 \xEF\xAC\x81sh \xF0\x9F\x98\x80"), std::string(3, '\0')}) {
    const auto ids = (*tokenizer)->Encode(text);
    if (ids.ok()) all.insert(all.end(), ids->begin(), ids->end());
  }
  for (int32_t id = 0; id < config.vocab_size; ++id) all.push_back(id * 7 % 1000);
  for (const int32_t id : all) {
    if (id < 0 || id >= config.vocab_size) std::abort();
  }
  const auto text = (*tokenizer)->Decode(all);
  if (!text.ok()) return 0;
  tvq::StreamDecoder decoder(**tokenizer);
  std::string streamed;
  for (const int32_t id : all) streamed += decoder.Push(id);
  if (streamed + decoder.Finish() != *text) std::abort();
  return 0;
}
