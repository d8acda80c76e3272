#include "models/runtime/tokenizer/stream_decoder.h"

#include <string_view>
#include <utility>

#include "base/utf8.h"

namespace tvq {
namespace {

std::string Replaced(size_t bytes) {
  std::string text;
  for (size_t i = 0; i < bytes; ++i) text += kReplacement;
  return text;
}

}  // namespace

StreamDecoder::StreamDecoder(const Tokenizer& tokenizer, Start start)
    : tokenizer_(&tokenizer),
      first_(start == Start::kText),
      strip_space_(start == Start::kText && tokenizer.StripsLeadingSpace()) {}

std::string StreamDecoder::Push(int32_t id) {
  const bool special = tokenizer_->IsSpecial(id);
  const std::string_view bytes =
      first_ ? tokenizer_->FirstTokenBytes(id) : tokenizer_->TokenBytes(id);
  if (bytes.empty() && special) return {};
  first_ = false;
  if (tokenizer_->IsRunByte(id)) return PushRunByte(bytes.front());
  std::string text = EndRun();
  return text += Show(bytes, special);
}

std::string StreamDecoder::PushRunByte(char byte) {
  run_ += byte;
  while (!run_broken_) {
    const Utf8Prefix prefix = ScanUtf8(std::string_view(run_).substr(run_checked_));
    if (prefix.kind == Utf8Prefix::kIncomplete) return {};
    if (prefix.kind == Utf8Prefix::kInvalid) run_broken_ = true;
    run_checked_ += prefix.size;
  }
  strip_space_ = false;
  return Replaced(std::exchange(run_, {}).size());
}

std::string StreamDecoder::EndRun() {
  const std::string run = std::exchange(run_, {});
  const bool valid = std::exchange(run_checked_, 0) == run.size();
  run_broken_ = false;
  if (valid) return Show(run, /*keep_space=*/false);
  strip_space_ = false;
  return Replaced(run.size());
}

std::string StreamDecoder::Show(std::string_view bytes, bool keep_space) {
  if (bytes.empty()) return {};
  if (strip_space_ && bytes.front() == ' ' && !keep_space) bytes.remove_prefix(1);
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
  std::string text = EndRun();
  if (!std::exchange(held_, {}).empty()) text += kReplacement;
  return text;
}

}  // namespace tvq
