#include "models/runtime/tokenizer/stream_decoder.h"

#include <string_view>
#include <utility>

#include "base/utf8.h"

namespace tvq {

StreamDecoder::StreamDecoder(const Tokenizer& tokenizer, Start start)
    : tokenizer_(&tokenizer),
      strip_space_(start == Start::kText && tokenizer.StripsLeadingSpace()) {}

std::string StreamDecoder::Push(int32_t id) {
  std::string_view bytes = tokenizer_->TokenBytes(id);
  if (bytes.empty()) return {};
  if (strip_space_ && bytes.front() == ' ' && !tokenizer_->IsSpecial(id)) bytes.remove_prefix(1);
  strip_space_ = false;

  const std::string pending = std::exchange(held_, {}) + std::string(bytes);
  std::string complete;
  for (std::string_view rest = pending; !rest.empty();) {
    const Utf8Prefix prefix = ScanUtf8(rest);
    if (prefix.kind == Utf8Prefix::kIncomplete) {
      held_ = rest;
      break;
    }
    complete += prefix.kind == Utf8Prefix::kCharacter ? rest.substr(0, prefix.size) : kReplacement;
    rest.remove_prefix(prefix.size);
  }
  return complete;
}

std::string StreamDecoder::Finish() {
  return std::exchange(held_, {}).empty() ? std::string() : std::string(kReplacement);
}

}  // namespace tvq
