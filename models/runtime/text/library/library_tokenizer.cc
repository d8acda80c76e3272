#include "models/runtime/text/library/library_tokenizer.h"

namespace tvq {

absl::Status TextLibraryStatus(int32_t code, const std::string& reason) {
  switch (code) {
    case kTvqTextOk:
      return absl::OkStatus();
    case kTvqTextInvalid:
      return absl::InvalidArgumentError(reason);
    case kTvqTextExhausted:
      return absl::ResourceExhaustedError(reason);
    case kTvqTextBusy:
      return absl::UnavailableError(reason);
    default:
      return absl::InternalError(reason);
  }
}

TvqTextSink SinkOf(std::string* text) {
  return {text, [](void* context, const char* data, size_t size) {
            static_cast<std::string*>(context)->assign(data, size);
          }};
}

TvqTextIdSink SinkOf(std::vector<int32_t>* ids) {
  return {ids, [](void* context, const int32_t* data, size_t count) {
            static_cast<std::vector<int32_t>*>(context)->assign(data, data + count);
          }};
}

absl::StatusOr<std::unique_ptr<const LibraryTokenizer>> LibraryTokenizer::Open(
    std::string_view json) {
  TvqTextTokenizer* handle = nullptr;
  TvqTextTokenizerInfo info = {};
  std::string error;
  const int32_t code = tvq_text_tokenizer_open(TextOf(json), &handle, &info, SinkOf(&error));
  if (code != kTvqTextOk) return TextLibraryStatus(code, error);
  return std::unique_ptr<const LibraryTokenizer>(new LibraryTokenizer(handle, info));
}

LibraryTokenizer::~LibraryTokenizer() { tvq_text_tokenizer_close(handle_); }

absl::Status LibraryTokenizer::Tokens(const std::function<void(const TvqTextToken&)>& each) const {
  using Each = std::function<void(const TvqTextToken&)>;
  std::string error;
  const auto sink = [](void* context, const TvqTextToken* token) {
    (*static_cast<const Each*>(context))(*token);
  };
  const int32_t code =
      tvq_text_tokenizer_tokens(handle_, const_cast<Each*>(&each), sink, SinkOf(&error));
  return TextLibraryStatus(code, error);
}

std::optional<int32_t> LibraryTokenizer::IdOf(std::string_view token) const {
  const int64_t id = tvq_text_tokenizer_id(handle_, TextOf(token));
  return id < 0 ? std::nullopt : std::optional(static_cast<int32_t>(id));
}

absl::StatusOr<std::vector<int32_t>> LibraryTokenizer::Encode(std::string_view text,
                                                              bool plain) const {
  std::vector<int32_t> ids;
  std::string error;
  const int32_t code =
      tvq_text_tokenizer_encode(handle_, TextOf(text), plain ? 1 : 0, SinkOf(&ids), SinkOf(&error));
  if (code != kTvqTextOk) return TextLibraryStatus(code, error);
  return ids;
}

absl::StatusOr<std::string> LibraryTokenizer::Decode(std::span<const int32_t> ids) const {
  std::string text, error;
  const int32_t code =
      tvq_text_tokenizer_decode(handle_, ids.data(), ids.size(), SinkOf(&text), SinkOf(&error));
  if (code != kTvqTextOk) return TextLibraryStatus(code, error);
  return text;
}

}  // namespace tvq
