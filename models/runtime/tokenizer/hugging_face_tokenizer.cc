#include "models/runtime/tokenizer/hugging_face_tokenizer.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/utf8.h"
#include "models/runtime/tokenizer/types.h"

namespace tvq {
namespace {

// A tokenizer.json may have up to so many ids beyond the model's vocabulary, such as an added token
// for padding.
constexpr uint64_t kMostOfNoModel = 256;

std::string_view ViewOf(const TvqText& text) { return {text.data, text.size}; }

absl::Status Refused(std::string_view source, const absl::Status& status) {
  return absl::InvalidArgumentError(absl::StrCat(std::string(source), ": ", status.message()));
}

}  // namespace

absl::StatusOr<std::unique_ptr<HuggingFaceTokenizer>> HuggingFaceTokenizer::Make(
    std::string_view json, std::string_view source, const CommonConfig& config) {
  absl::StatusOr<std::shared_ptr<const LibraryTokenizer>> library = LibraryTokenizer::Open(json);
  if (!library.ok()) return Refused(source, library.status());
  const uint64_t ids = (*library)->info().id_count;
  const uint64_t count = std::min(ids, static_cast<uint64_t>(config.vocab_size));
  if (ids - count > kMostOfNoModel) {
    return absl::InvalidArgumentError(absl::StrCat(std::string(source), " has ids up to ", ids - 1,
                                                   ", but config.json's vocab_size is ",
                                                   config.vocab_size));
  }
  TokenTable table(static_cast<int64_t>(count));
  Forms forms{.first = std::vector<std::string>(count), .run_byte = std::vector<bool>(count)};
  bool differ = false;
  const absl::Status read = (*library)->Tokens([&](const TvqTextToken& token) {
    if (token.special != 0 || token.id >= count) return;
    table.Set(token.id, std::string(ViewOf(token.bytes)));
    forms.first[token.id] = ViewOf(token.first);
    forms.run_byte[token.id] = token.run_byte != 0;
    differ = differ || ViewOf(token.first) != ViewOf(token.bytes);
  });
  if (!read.ok()) return Refused(source, read);
  if (!differ) forms.first.clear();
  return std::unique_ptr<HuggingFaceTokenizer>(new HuggingFaceTokenizer(
      std::move(table), std::move(forms), config.vocab_size, *std::move(library)));
}

absl::StatusOr<std::vector<int32_t>> HuggingFaceTokenizer::Encode(std::string_view text) const {
  absl::Status valid = CheckUtf8(text);
  if (!valid.ok()) return valid;
  auto ids = library_->Encode(text);
  if (!ids.ok()) return ids;
  if (const absl::Status known = CheckIds(*ids); !known.ok()) return known;
  return ids;
}

absl::StatusOr<std::string> HuggingFaceTokenizer::Decode(std::span<const int32_t> ids) const {
  absl::Status known = CheckIds(ids);
  if (!known.ok()) return known;
  return library_->Decode(ids);
}

std::string_view HuggingFaceTokenizer::FirstTokenBytes(int32_t id) const {
  const auto index = static_cast<size_t>(id);
  return index < forms_.first.size() ? std::string_view(forms_.first[index]) : TokenBytes(id);
}

bool HuggingFaceTokenizer::IsRunByte(int32_t id) const {
  const auto index = static_cast<size_t>(id);
  return index < forms_.run_byte.size() && forms_.run_byte[index];
}

absl::StatusOr<std::unique_ptr<Tokenizer>> MakeHuggingFaceTokenizer(std::string_view json,
                                                                    std::string_view source,
                                                                    const CommonConfig& config) {
  return HuggingFaceTokenizer::Make(json, source, config);
}

}  // namespace tvq
