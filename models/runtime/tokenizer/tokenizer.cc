#include "models/runtime/tokenizer/tokenizer.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "models/runtime/quoted.h"
#include "models/runtime/read_file.h"
#include "models/runtime/tokenizer/stream_decoder.h"
#include "models/runtime/tokenizer/types.h"
#include "models/runtime/tokenizer/utf8.h"

namespace tvq {
namespace {

constexpr int64_t kLargestFileBytes = 64 << 20;  // SentencePiece models have a few MB at most

// The beginning of the character that byte `at` of the UTF-8 `text` lies in.
size_t CharacterAt(std::string_view text, size_t at) {
  while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) --at;
  return at;
}

}  // namespace

absl::Status Tokenizer::CheckKnown(std::string_view text, std::span<const int32_t> ids) const {
  const std::optional<int32_t> unknown = unknown_token();
  const auto is_known = [&](std::span<const int32_t> some) {
    return !unknown || std::find(some.begin(), some.end(), *unknown) == some.end();
  };
  if (is_known(ids)) return absl::OkStatus();
  // A beginning of the text that is known, and that is not with one character more. Beginnings, as
  // a character alone may be unknown where it is known behind the one that it combines with.
  size_t known = 0, end = text.size();
  while (known + ScanUtf8(text.substr(known)).size < end) {
    size_t middle = CharacterAt(text, known + (end - known) / 2);
    if (middle == known) middle += ScanUtf8(text.substr(known)).size;
    const auto beginning = Encode(text.substr(0, middle));
    if (!beginning.ok()) return beginning.status();
    (is_known(*beginning) ? known : end) = middle;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("the character ", ShownCharacter(text.substr(known, end - known)),
                   " at byte offset ", known, " is not in the model's vocabulary"));
}

absl::StatusOr<std::string> Tokenizer::Decode(std::span<const int32_t> ids) const {
  StreamDecoder decoder(*this);
  std::string text;
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] < 0 || ids[i] >= vocab_size()) {
      return absl::InvalidArgumentError(absl::StrCat("token id ", ids[i], " at index ", i,
                                                     " is outside the vocabulary; ids are 0 to ",
                                                     vocab_size() - 1));
    }
    text += decoder.Push(ids[i]);
  }
  return text + decoder.Finish();
}

absl::StatusOr<std::unique_ptr<Tokenizer>> LoadTokenizer(const std::string& dir,
                                                         const CommonConfig& config) {
  const std::string& type = config.tokenizer.type;
  if (type == "bytes") return MakeBytesTokenizer(config);
  if (type == "pixels") return MakePixelsTokenizer(config);
  if (type == "ids") return MakeIdsTokenizer(config);

  if (type == "characters" || type == "sentencepiece") {
    const std::string path = absl::StrCat(dir, "/", config.tokenizer.file);
    absl::StatusOr<std::string> content = TokenizerFile(dir, config);
    if (!content.ok()) return content.status();
    return type == "characters" ? MakeCharactersTokenizer(*content, path, config)
                                : MakeSentencePieceTokenizer(*content, path, config);
  }
  return absl::InvalidArgumentError(
      absl::StrCat("tokenizer type is ", Quoted(type), "; it must be ",
                   "bytes, sentencepiece, characters, pixels or ids"));
}

absl::StatusOr<std::string> TokenizerFile(const std::string& dir, const CommonConfig& config) {
  if (config.tokenizer.file.empty()) return std::string();
  return ReadFile(absl::StrCat(dir, "/", config.tokenizer.file), kLargestFileBytes);
}

}  // namespace tvq
