#include "models/runtime/tokenizer/tokenizer.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/quoted.h"
#include "base/read_file.h"
#include "base/utf8.h"
#include "models/runtime/tokenizer/stream_decoder.h"
#include "models/runtime/tokenizer/types.h"

namespace tvq {
namespace {

constexpr int64_t kLargestFileBytes = 64 << 20;  // a tokenizer.json of 256 Ki tokens has 33 MB

// Types of tokenizers that are made from a file.
constexpr struct {
  std::string_view type;
  absl::StatusOr<std::unique_ptr<Tokenizer>> (*make)(std::string_view content,
                                                     std::string_view source,
                                                     const CommonConfig& config);
} kOfFiles[] = {{"characters", MakeCharactersTokenizer},
                {"sentencepiece", MakeSentencePieceTokenizer},
                {"huggingface", MakeHuggingFaceTokenizer},
                {"rwkv", MakeRwkvTokenizer}};

}  // namespace

absl::Status Tokenizer::CheckKnown(std::string_view text, std::span<const int32_t> ids) const {
  const std::optional<int32_t> unknown = unknown_token();
  if (!unknown) return absl::OkStatus();
  const auto found = std::find(ids.begin(), ids.end(), *unknown);
  if (found == ids.end()) return absl::OkStatus();
  const size_t begin = TokenBegin(text, static_cast<size_t>(found - ids.begin()));
  if (begin >= text.size()) {
    return absl::InvalidArgumentError(
        "what the tokenizer adds behind the text is not in the model's vocabulary");
  }
  const std::string_view character = text.substr(begin, ScanUtf8(text.substr(begin)).size);
  return absl::InvalidArgumentError(absl::StrCat("the character ", ShownCharacter(character),
                                                 " at byte offset ", begin,
                                                 " is not in the model's vocabulary"));
}

absl::Status Tokenizer::CheckIds(std::span<const int32_t> ids) const {
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] >= 0 && ids[i] < vocab_size()) continue;
    return absl::InvalidArgumentError(absl::StrCat("token id ", ids[i], " at index ", i,
                                                   " is outside the vocabulary; ids are 0 to ",
                                                   vocab_size() - 1));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> Tokenizer::Decode(std::span<const int32_t> ids) const {
  absl::Status known = CheckIds(ids);
  if (!known.ok()) return known;
  StreamDecoder decoder(*this);
  std::string text;
  for (const int32_t id : ids) text += decoder.Push(id);
  return text + decoder.Finish();
}

absl::StatusOr<std::unique_ptr<Tokenizer>> LoadTokenizer(const std::string& dir,
                                                         const CommonConfig& config) {
  const std::string& type = config.tokenizer.type;
  if (type == "bytes") return MakeBytesTokenizer(config);
  if (type == "pixels") return MakePixelsTokenizer(config);
  if (type == "ids") return MakeIdsTokenizer(config);

  const auto found = std::find_if(std::begin(kOfFiles), std::end(kOfFiles),
                                  [&](const auto& t) { return t.type == type; });
  if (found == std::end(kOfFiles)) {
    return absl::InvalidArgumentError(
        absl::StrCat("tokenizer type is ", Quoted(type), "; it must be ",
                     "bytes, sentencepiece, huggingface, rwkv, characters, pixels or ids"));
  }
  absl::StatusOr<std::string> content = TokenizerFile(dir, config);
  if (!content.ok()) return content.status();
  return found->make(*content, absl::StrCat(dir, "/", config.tokenizer.file), config);
}

absl::StatusOr<std::string> TokenizerFile(const std::string& dir, const CommonConfig& config) {
  if (config.tokenizer.file.empty()) return std::string();
  return ReadFile(absl::StrCat(dir, "/", config.tokenizer.file), kLargestFileBytes);
}

}  // namespace tvq
