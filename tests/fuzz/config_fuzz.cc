// Any bytes as config.json: what is accepted keeps the ranges the rest of the program relies on.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "models/runtime/config/config.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const absl::StatusOr<tvq::Config> config = tvq::Config::Parse(text, "config.json");
  if (!config.ok()) return 0;
  const absl::StatusOr<tvq::CommonConfig> common = config->Common();
  if (!common.ok()) return 0;
  const bool sound = common->vocab_size >= 1 && common->prefill_chunk >= 1 &&
                     common->max_position >= 0 && common->eos_token_id.value_or(0) >= 0 &&
                     common->eos_token_id.value_or(0) < common->vocab_size &&
                     common->tokenizer.file.find('/') == std::string::npos;
  if (!sound) std::abort();
  return 0;
}
